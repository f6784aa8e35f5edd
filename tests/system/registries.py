"""What honest clients install and load, made for the shop of guest.py: packages of many kinds, spread over many hosts, and a list of host names."""
import base64
import hashlib
import io
import json
import random
import re
import tarfile
import zipfile

from lab import HERE
from netns import run

LETTERS = {"hex": "0123456789abcdef", "b36": "abcdefghijklmnopqrstuvwxyz0123456789", "digits": "0123456789"}
WORDS = ("alpha api archive assets beta blue cache cdn cloud data delta east eu files fonts green img images main media north objects origin pkg prod "
         "public red releases repo south staging static storage store team us video west").split()


def shape_list():
    lines = (HERE / "name_shapes.txt").read_text(encoding="ascii").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def expand(shape, chance):
    """One of the names that have this shape."""
    def one(match):
        if match[1] == "word":
            return chance.choice(WORDS)
        return "".join(chance.choice(LETTERS[match[1]]) for _ in range(int(match[2])))
    return re.sub(r"\{(\w+)(?::(\d+))?\}", one, shape)


def shaped_names(each, seed=1):
    """Different names, `each` of every shape, shape after shape in turn."""
    chance, seen = random.Random(seed), {}
    for _ in range(each):
        for shape in shape_list():
            seen.setdefault(expand(shape, chance))
    return list(seen)


def tar_gz(files):
    """The bytes of an archive of {name: text}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def npm_packages(shop, count, hosts):
    """A tree of packages: each depends on two more; their archives lie on `hosts` hosts. Returns the root's name."""
    out = shop.folder / "npm"
    out.mkdir()
    for i in range(count):
        about = {"name": f"part-{i}", "version": "1.0.0", "dependencies": {f"part-{n}": "^1.0.0" for n in (2 * i + 1, 2 * i + 2) if n < count}}
        archive = tar_gz({"package/package.json": json.dumps(about)})
        (out / f"part-{i}-1.0.0.tgz").write_bytes(archive)
        dist = {"tarball": shop.tls(f"tarballs-{i % hosts}", f"npm/part-{i}-1.0.0.tgz"),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()}
        (out / f"part-{i}").write_text(json.dumps({"name": f"part-{i}", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**about, "dist": dist}}}))
    return "part-0"


def wheels(shop, count, hosts):
    """A simple index of wheels on `hosts` hosts. Returns requirements with their hashes: pip's lock file."""
    lines = []
    for i in range(count):
        folder, name, about = shop.folder / f"simple/part{i}", f"part{i}-1.0-py3-none-any.whl", f"part{i}-1.0.dist-info"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / name, "w") as z:
            z.writestr(f"part{i}.py", "")
            z.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: part{i}\nVersion: 1.0\n")
            z.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr(f"{about}/RECORD", f"part{i}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        url = shop.tls(f"files-{i % hosts}", f"simple/part{i}/{name}")
        (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{url}#sha256={digest}">{name}</a></body></html>')
        lines.append(f"part{i}==1.0 --hash=sha256:{digest}\n")
    return "".join(lines)


def crates(shop, count):
    """A sparse index of crates, each on a host of its own. Returns the dependencies for a manifest."""
    index, out = shop.folder / "index", shop.folder / "crates"
    out.mkdir()
    index.mkdir()
    (index / "config.json").write_text(json.dumps({"dl": shop.tls("{crate}", "crates/{crate}-{version}.crate")}))
    for i in range(count):
        name = f"part-{i:02}"
        archive = tar_gz({f"{name}-1.0.0/Cargo.toml": f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2018"\n', f"{name}-1.0.0/src/lib.rs": ""})
        (out / f"{name}-1.0.0.crate").write_bytes(archive)
        (index / name[:2] / name[2:4]).mkdir(parents=True, exist_ok=True)
        (index / name[:2] / name[2:4] / name).write_text(json.dumps({
            "name": name, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(archive).hexdigest(), "features": {}, "yanked": False}) + "\n")
    return "".join(f'part-{i:02} = {{ version = "1", registry = "tests" }}\n' for i in range(count))


def debian_archive(shop, scratch):
    """A Debian archive of one package, at /apt/ on every host."""
    root, out = scratch / "tinything", shop.folder / "apt"
    (root / "DEBIAN").mkdir(parents=True)
    out.mkdir()
    (root / "DEBIAN/control").write_text("Package: tinything\nVersion: 1.0\nArchitecture: all\nMaintainer: tests <tests@localhost>\nDescription: nothing\n")
    run("dpkg-deb", "--build", "--root-owner-group", root, out / "tinything_1.0_all.deb")
    (out / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=out).stdout)
    (out / "Release").write_text(run("apt-ftparchive", "release", ".", cwd=out).stdout)


def repository_of_parts(shop, scratch, count):
    """A repository whose submodules lie on `count` hosts. Returns its path."""
    git = ("git", "-c", "user.name=tests", "-c", "user.email=tests@localhost")
    for name in ("part", "whole"):
        run("git", "init", "-q", "--bare", "-b", "main", shop.folder / f"git/{name}.git")
        run("git", "init", "-q", "-b", "main", scratch / name)
    run(*git, "commit", "-q", "--allow-empty", "-m", "part", cwd=scratch / "part")
    run("git", "push", "-q", shop.folder / "git/part.git", "main", cwd=scratch / "part")
    commit = run("git", "rev-parse", "main", cwd=scratch / "part").stdout.strip()
    (scratch / "whole/.gitmodules").write_text("".join(
        f'[submodule "p{i}"]\n\tpath = p{i}\n\turl = {shop.tls(f"git-{i}", "git/part.git")}\n' for i in range(count)))
    run("git", "add", ".gitmodules", cwd=scratch / "whole")
    for i in range(count):
        run("git", "update-index", "--add", "--cacheinfo", f"160000,{commit},p{i}", cwd=scratch / "whole")
    run(*git, "commit", "-q", "-m", "whole", cwd=scratch / "whole")
    run("git", "push", "-q", shop.folder / "git/whole.git", "main", cwd=scratch / "whole")
    return "git/whole.git"


def image(shop, layers):
    """A container image; the shop says of each blob that it lies on a host named by its digest."""
    folder = shop.folder / "image"
    folder.mkdir()

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (folder / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}
    parts = [blob(tar_gz({f"file-{i}": "x" * i}), "layer.v1.tar+gzip") for i in range(layers)]
    about = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [p["digest"] for p in parts]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": blob(json.dumps(about).encode(), "config.v1+json"),
                "layers": parts}
    (folder / "manifest").write_text(json.dumps(manifest))


def page(shop, name, hosts, rest=""):
    """A page that shows a picture of each host."""
    (shop.folder / name).write_text("<!DOCTYPE html><title>many</title>" + "".join(f'<img src="{shop.clear(host, "dot.svg")}">' for host in hosts) + rest)

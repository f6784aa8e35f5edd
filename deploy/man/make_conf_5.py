"""Write egressd.conf.5 from the option tables: make_conf_5.py CONFIG_DIR > egressd.conf.5"""
import re
import sys
from pathlib import Path

HEAD = r'''.TH EGRESSD.CONF 5 "2026-11-30" "egressd 0.1.0" "File formats"
.SH NAME
egressd.conf \- configuration of egressd and egress\-sidecar
.SH DESCRIPTION
One file for both programs:
.B key = value
lines under
.B [sections];
.B #
starts a comment. Unknown keys, duplicates and values out of range are faults; all of them are reported at once, with line and column, and nothing starts.
The sidecar reads the file again on SIGHUP; each option says whether a change applies at once or after a restart.
'''
SECTIONS = (("daemon", "[daemon]", "What egressd is to do."),
            ("listener", "[listener NAME]", "Where guests arrive; several sections, each with its own name."),
            ("sidecar", "[sidecar]", "Where policy comes from."),
            ("serve", "[serve]", "Alone in a file: an egress-sidecar that hands out an authority's documents."))
ROW = re.compile(r'^OPTION\((\w+), (\w+), (.+?), (\w+), "([^"]*)", "([^"]*)", (\w+), "(.*)"\)$')


def escape(text):
    return text.replace("\\", "\\\\").replace("-", "\\-")


def main(folder):
    print(HEAD, end="")
    for name, title, about in SECTIONS:
        print(f".SH {escape(title)}\n{escape(about)}")
        for line in (folder / f"{name}_options.def").read_text().splitlines():
            row = ROW.match(line)
            if not row:
                continue
            key, kind, low, high, standard, unit, reload, text = row.groups()
            print(f".TP\n.B {key}\n{escape(text)}")
            facts = []
            if kind == "NUMBER":
                facts.append(f"{low} to {high}" + (f" {unit}" if unit else ""))
            if kind == "CHOICE":
                facts.append(low.strip('"').replace("|", ", "))
            if kind == "SWITCH":
                facts.append("on, off")
            facts.append(f"default {standard}" if standard else "unset by default")
            facts.append("applies at once" if reload == "LIVE" else "applies after a restart")
            print(f"({escape('; '.join(facts))})")
    print(".SH SEE ALSO\n.BR egressd (8),\n.BR egress\\-sidecar (8),\n.BR egressctl (1)")


main(Path(sys.argv[1]))

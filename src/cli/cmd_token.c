/* A guest's token and its digest: the token is shown once and kept by nobody, the digest goes into the lease. */
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "cli/cli.h"
#include "cli/print.h"

#define RANDOM_LEN 32
#define TOKEN_MAX 64

int cmd_token(struct cli *cli)
{
	uint8_t random[RANDOM_LEN], digest[CRYPTO_SHA256_LEN];
	char token[TOKEN_MAX] = "v1.", hex[2 * sizeof(digest) + 1];

	if (!cli_args_hold(cli, 1, 1))
		return CLI_FAILED;
	if (strcmp(cli->args[0], "new") != 0)
		return cli_fail(cli, "only \"token new\" is known");
	if (crypto_random(random, sizeof(random)) != ERR_OK)
		return cli_fail(cli, "no random bytes");
	crypto_base64url(random, sizeof(random), token + strlen(token), sizeof(token) - strlen(token));
	crypto_wipe(random, sizeof(random));
	if (crypto_sha256(token, strlen(token), digest) != ERR_OK)
		return cli_fail(cli, "no digest");
	text_from_bytes_hex(digest, sizeof(digest), hex);
	if (cli->json) {
		putchar('{');
		print_json_member("token", token, true);
		print_json_member("sha256", hex, false);
		puts("}");
	} else {
		printf("token   %s\ndigest  sha256:%s\n", token, hex);
	}
	crypto_wipe(token, sizeof(token));
	return CLI_DONE;
}

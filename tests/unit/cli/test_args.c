/* Options wherever they stand, in both spellings, and what is left over. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/cli.h"

static struct cli cli_of(char **args)
{
	struct cli cli = { .command = "test", .args = args };

	while (args[cli.arg_count] != NULL)
		cli.arg_count++;
	return cli;
}

Test(args, takes_values_and_flags_from_any_place)
{
	char *args[] = { "a", "--root", "x", "b", "--flag", "--root=y", "--rooted", NULL };
	struct cli cli = cli_of(args);
	const char *value = NULL;

	cr_assert(cli_take_value(&cli, "--root", &value));
	cr_assert_str_eq(value, "x");
	cr_assert(cli_take_value(&cli, "--root", &value));
	cr_assert_str_eq(value, "y");
	cr_assert_not(cli_take_value(&cli, "--root", &value));
	cr_assert(cli_take_flag(&cli, "--flag"));
	cr_assert_not(cli_take_flag(&cli, "--flag"));
	cr_assert_eq(cli.arg_count, 3);
	cr_assert_str_eq(cli.args[1], "b");
	cr_assert_str_eq(cli.args[2], "--rooted");
	cr_assert_not(cli_args_hold(&cli, 0, 9), "an option that nobody knows");
}

Test(args, says_when_a_value_is_missing_or_a_number_is_wrong)
{
	char *args[] = { "a", "b", "--root", NULL };
	struct cli cli = cli_of(args);
	const char *value = "";

	cr_assert(cli_take_value(&cli, "--root", &value));
	cr_assert_null(value);
	cr_assert(cli_args_hold(&cli, 2, 2));
	cr_assert_not(cli_args_hold(&cli, 3, 4));
	cr_assert_not(cli_args_hold(&cli, 0, 1));
}

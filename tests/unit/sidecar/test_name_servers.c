/* Name servers of a resolv.conf text: order, blanks, what is left out, and every prefix. */
#include <criterion/criterion.h>
#include <string.h>

#include "sidecar/name_servers.h"

Test(name_servers, takes_them_in_order_and_leaves_out_what_it_does_not_read)
{
	static const char text[] = "# nameserver 192.0.2.99\n"
				   "domain example.org\n"
				   "nameserver 192.0.2.1\r\n"
				   "\tnameserver   2001:db8::53 # comment\n"
				   "nameserver fe80::1%eth0\n"
				   "nameserver 127.1\n"
				   "nameservers 192.0.2.98\n"
				   "nameserver\n"
				   "nameserver 192.0.2.2";
	struct endpoint servers[NAME_SERVERS_MAX];
	char room[ENDPOINT_TEXT_MAX];

	cr_assert_eq(name_servers_parse(text_of(text), servers), 3);
	cr_assert_str_eq(endpoint_print(&servers[0], room), "192.0.2.1:53");
	cr_assert_str_eq(endpoint_print(&servers[1], room), "[2001:db8::53]:53");
	cr_assert_str_eq(endpoint_print(&servers[2], room), "192.0.2.2:53");
	for (size_t len = 0; len < sizeof(text); len++)
		cr_assert_leq(name_servers_parse((struct text){ text, len }, servers), 3);
}

Test(name_servers, takes_no_more_than_it_has_room_for)
{
	struct endpoint servers[NAME_SERVERS_MAX];
	char text[20 * 32] = "";

	for (unsigned i = 0; i < 20; i++)
		strcat(text, "nameserver 192.0.2.1\n");
	cr_assert_eq(name_servers_parse(text_of(text), servers), NAME_SERVERS_MAX);
	cr_assert_eq(name_servers_parse(text_of(""), servers), 0);
}

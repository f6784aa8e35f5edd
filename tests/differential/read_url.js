// Where a browser goes with each reference: the URL Standard, as Node has it. The same lines in and out as read_url.c.
'use strict';
const ports = { 'http:': 80, 'https:': 443, 'ws:': 80 };
const lines = require('fs').readFileSync(0, 'latin1').split('\n').slice(0, -1);
process.stdout.write(lines.map((line) => {
	try {
		// A header's bytes beyond ASCII reach the parser as these code points.
		const url = new URL(Buffer.from(line, 'hex').toString('latin1'), 'http://a.test/d/x');
		const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
		return `${url.protocol.slice(0, -1)} ${host} ${url.port || ports[url.protocol] || 0}${url.username || url.password ? ' user' : ''}`;
	} catch {
		return '-';
	}
}).join('\n') + '\n');

// What Node's own parser makes of each frame on standard input: the same frames in, the same lines out as read_http1.c, bodies decoded.
'use strict';
process.removeAllListeners('warning');
process.on('warning', () => {});
const { HTTPParser, methods, allMethods } = process.binding('http_parser');
const names = allMethods || methods;

function hex(text) {
	return Buffer.from(text, 'latin1').toString('hex');
}

function field(headers, name) {
	const values = [];
	for (let i = 0; i < headers.length; i += 2) {
		if (headers[i].toLowerCase() === name)
			values.push(headers[i + 1]);
	}
	return values;
}

function read(isRequest, asked, bytes) {
	const out = { messages: [], bad: false };
	const parser = new HTTPParser();
	let early = [], earlyUrl = '', current = null, stop = false;
	parser.initialize(isRequest ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {});
	// Many fields come in several parts; behind a body these are trailers.
	parser[HTTPParser.kOnHeaders | 0] = (headers, url) => {
		early = early.concat(headers);
		earlyUrl += url;
	};
	parser[HTTPParser.kOnHeadersComplete | 0] = (major, minor, headers, method, url, status, reason, upgrade) => {
		const all = early.concat(headers || []);
		url = url === undefined ? earlyUrl : url;
		early = [];
		earlyUrl = '';
		current = { whole: false, body: '', upgrade: upgrade };
		if (isRequest) {
			current.method = hex(names[method]);
			current.target = hex(url);
			current.host = field(all, 'host').map(hex).join(',');
		} else {
			const locations = field(all, 'location');
			current.status = status;
			if (locations.length > 0)
				current.location = locations.map(hex).join(',');
		}
		out.messages.push(current);
		if (upgrade) {
			stop = true;
			return 2;
		}
		return !isRequest && asked === 'H' && status >= 200 ? 1 : 0;
	};
	parser[HTTPParser.kOnBody | 0] = (buffer, start, length) => {
		// Older versions hand over the whole buffer and a range.
		const part = start === undefined ? buffer : buffer.subarray(start, start + length);
		if (!stop)
			current.body += Buffer.from(part).toString('hex');
	};
	parser[HTTPParser.kOnMessageComplete | 0] = () => {
		if (current !== null)
			current.whole = true;
		current = null;
		early = [];
		earlyUrl = '';
	};
	const done = parser.execute(bytes);
	if (done instanceof Error) {
		out.bad = true;
	} else if (!stop) {
		const end = parser.finish();
		out.bad = end instanceof Error;
	}
	return out;
}

const input = require('fs').readFileSync(0);
const lines = [];
for (let at = 0; at + 6 <= input.length;) {
	const length = input.readUInt32BE(at + 2);
	const bytes = input.subarray(at + 6, at + 6 + length);
	lines.push(JSON.stringify(read(input[at] === 0x71, String.fromCharCode(input[at + 1]), bytes)));
	at += 6 + length;
}
process.stdout.write(lines.join('\n') + '\n');

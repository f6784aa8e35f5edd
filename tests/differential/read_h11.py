"""What h11 makes of each frame on standard input: the same frames in, the same lines out as read_http1.c, bodies decoded."""
import json
import struct
import sys

import h11


def begin(is_request, asked):
    """A connection that is ready to hear the next message."""
    if is_request:
        return h11.Connection(h11.SERVER)
    conn = h11.Connection(h11.CLIENT)
    ask(conn, asked)
    return conn


def ask(conn, asked):
    conn.send(h11.Request(method="HEAD" if asked == "H" else "GET", target="/", headers=[("Host", "a.test")]))
    conn.send(h11.EndOfMessage())


def values(event, name):
    return [value.hex() for key, value in event.headers if key == name]


def note(event):
    if isinstance(event, h11.Request):
        return {"whole": False, "body": "", "method": event.method.hex(), "target": event.target.hex(), "host": ",".join(values(event, b"host"))}
    message = {"whole": isinstance(event, h11.InformationalResponse), "body": "", "status": event.status_code}
    if values(event, b"location"):
        message["location"] = ",".join(values(event, b"location"))
    return message


def answer(conn):
    """Go on to the next message of a kept connection."""
    if conn.our_role is h11.SERVER:
        conn.send(h11.Response(status_code=204, headers=[]))
        conn.send(h11.EndOfMessage())
    conn.start_next_cycle()


def read(is_request, asked, data):
    conn, messages = begin(is_request, asked), []
    conn.receive_data(data)
    ended = False
    try:
        while True:
            event = conn.next_event()
            if event is h11.NEED_DATA:
                if ended or is_request:
                    break
                conn.receive_data(b"")
                ended = True
            elif event is h11.PAUSED:
                if conn.our_state is h11.SWITCHED_PROTOCOL or conn.their_state in (h11.MIGHT_SWITCH_PROTOCOL, h11.SWITCHED_PROTOCOL):
                    messages[-1]["upgrade"] = True
                    break
                answer(conn)
                if not is_request:
                    ask(conn, "G")
            elif isinstance(event, (h11.Request, h11.Response, h11.InformationalResponse)):
                messages.append(note(event))
            elif isinstance(event, h11.Data):
                messages[-1]["body"] += bytes(event.data).hex()
            elif isinstance(event, h11.EndOfMessage):
                messages[-1]["whole"] = True
            elif isinstance(event, h11.ConnectionClosed):
                break
    except h11.ProtocolError:
        return {"messages": messages, "bad": True}
    return {"messages": messages, "bad": False}


def main():
    data, at = sys.stdin.buffer.read(), 0
    while at + 6 <= len(data):
        kind, asked, length = struct.unpack(">ccI", data[at:at + 6])
        print(json.dumps(read(kind == b"q", asked.decode(), data[at + 6:at + 6 + length])))
        at += 6 + length


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
# A server with a thread for each request of 16 clients. Clients work longer on a request than the server does.
cd /tmp; cat >web.py <<END
import http.client, http.server, os, threading

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = str(sum(n * n for n in range(2000))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

def ask(port):
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        length = len(connection.getresponse().read())
        connection.close()
        sum(n * length for n in range(100000))

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64

server = Server(("127.0.0.1", 0), Page)
clients = []
for _ in range(16):
    client = os.fork()
    if not client:
        ask(server.server_port)
        os._exit(0)
    clients.append(client)
threading.Thread(target=server.serve_forever).start()
[os.waitpid(client, 0) for client in clients]
server.shutdown()
END
exec python3 web.py

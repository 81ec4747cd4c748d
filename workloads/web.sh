# SPDX-License-Identifier: GPL-2.0-only
# A server with threads: it makes one for each request of the four threads of a client.
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
    for _ in range(30):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
client = os.fork()
if client:
    threading.Thread(target=server.serve_forever).start()
    os.waitpid(client, 0)
    server.shutdown()
else:
    askers = [threading.Thread(target=ask, args=[server.server_port]) for _ in range(4)]
    [asker.start() for asker in askers]
    [asker.join() for asker in askers]
END
exec python3 web.py

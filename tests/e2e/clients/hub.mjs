// A host of models: the files of a folder. usage: FOLDER PORT
import { createServer } from "node:http";
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";

const [folder, port] = process.argv.slice(2);
createServer((request, response) => {
    const path = join(folder, new URL(request.url, "http://host").pathname);
    const size = statSync(path, { throwIfNoEntry: false });
    if (!size?.isFile()) return response.writeHead(404).end();
    response.writeHead(200, { "content-length": size.size });
    if (request.method === "HEAD") response.end();
    else createReadStream(path).pipe(response);
}).listen(Number(port), "127.0.0.1");

import { startChild } from "./child.ts";
import { loadTokens } from "../test/support/mock-model/behaviours.ts";
import { spawn } from "node:child_process";
const mock = await startChild<number>(new URL("./mock.ts", import.meta.url));
const client = await startChild<string>(new URL("./load-client.ts", import.meta.url));
const body = { model: "mock-paced-20", messages: [{role:"user",content:"Hello there"}], stream: true, stream_options: {include_usage:true} };
const p = spawn("perf", ["record","-g","-o",`/tmp/${process.argv[2]}.data`,"-p",String(process.argv[2]==="mock"?mock.pid:client.pid),"--","sleep","5"],{stdio:"ignore"});
const r: any = await client.ask({ kind: "turns", port: mock.ready, path: "/v1/chat/completions", headers: {}, body: JSON.stringify(body), dialect: "openai", expected: loadTokens.join(""), threads: {prefix:"x"}, streams: 1000, rampMs: 1280, turnsMax: 1e6, secondsMax: 5, turnTimeoutMs: 20000, serverPids: [mock.pid] });
process.stdout.write(JSON.stringify({mock:r.serverCpuMs/r.windowMs, client: r.clientCpuMs/r.windowMs})+"\n");

await client.stop(); await mock.stop();

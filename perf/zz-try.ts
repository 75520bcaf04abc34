import { startChild } from "./child.ts";
import { loadTokens } from "../test/support/mock-model/behaviours.ts";
import { Histogram } from "./histogram.ts";
import { readCpuMs } from "./process-stats.ts";
const mock = await startChild<number>(new URL("./mock.ts", import.meta.url));
const relay = await startChild<number>(new URL("./relay.ts", import.meta.url), [String(mock.ready), JSON.stringify({"perf-burst":"mock-burst","perf-trickle":"mock-trickle","perf-paced":"mock-paced-20"})]);
const client = await startChild<string>(new URL("./load-client.ts", import.meta.url));
async function run(target: string, model: string, streams: number, rampMs: number, secondsMax: number) {
  const direct = target === "direct";
  const body = direct ? { model: "mock-" + model, messages: [{role:"user",content:"Hello there"}], stream: true, stream_options: {include_usage:true} } : { manifest: "perf-" + model.split("-")[0], thread_id: "{thread}", messages: [{role:"user",content:"Hello there"}] };
  const m0 = readCpuMs([mock.pid]);
  const r: any = await client.ask({ kind: "turns", port: direct ? mock.ready : relay.ready, path: direct ? "/v1/chat/completions" : "/relay", headers: {}, body: JSON.stringify(body), dialect: direct ? "openai" : "frames", expected: loadTokens.join(""), threads: {prefix:"x"}, streams, rampMs, turnsMax: 1e6, secondsMax, turnTimeoutMs: 20000, serverPids: direct ? [mock.pid] : [relay.pid] });
  const h = Histogram.from(r.ttft), t = Histogram.from(r.turn);
  const m1 = readCpuMs([mock.pid]);
  process.stdout.write(`${target} ${model} x${streams}: ${(r.turns/r.windowMs*1000).toFixed(0)} turns/s ${(r.tokenChars/6/r.windowMs*1000).toFixed(0)} tok/s ttft ${h.quantileMs(.5).toFixed(2)}/${h.quantileMs(.99).toFixed(2)} turn ${t.quantileMs(.5).toFixed(2)}/${t.quantileMs(.99).toFixed(2)} server cpu/turn ${(r.serverCpuMs/r.turns*1000).toFixed(0)}us (${(r.serverCpuMs/r.windowMs).toFixed(2)} cores) client ${(r.clientCpuMs/r.turns*1000).toFixed(0)}us (${(r.clientCpuMs/r.windowMs).toFixed(2)}) mock ~${((m1-m0)/r.turnsWithRamp*1000).toFixed(0)}us errors ${JSON.stringify(r.errors)}\n`);
}
for (const t of ["direct","relay"]) for (const m of ["burst","trickle"]) { await run(t, m, 64, 0, 1); await run(t, m, 64, 0, 3); }
for (const n of [20, 1000, 2000]) for (const t of ["direct","relay"]) await run(t, "paced-20", n, 1280, 4);
await client.stop(); await relay.stop(); await mock.stop();

import { createReadStream, createWriteStream } from "node:fs";
import { systemEnv } from "../../../bus/env.ts";
import { ForwardProxy } from "../../../governance/egress/forward-proxy.ts";
import { type Order, packed, type Report, reportsFd, Unpacker } from "./messages.ts";
import { type Visitors, visitPage } from "./page-visit.ts";

// Entry of the process that drives browsers. Pages of strangers decide what the browser reports and how much, so that neither their
// size nor a defect of the library touches other work. It reads orders from standard input and writes reports to a pipe of its own:
// Playwright touches standard output, which makes its pipe non-blocking, and a write of many bytes to such a pipe fails.

const env = systemEnv();
const input = createReadStream("", { fd: 0 });
const output = createWriteStream("", { fd: reportsFd });
const visits = new Map<string, AbortController>();
let opening: Promise<Visitors> | null = null;

const orders = new Unpacker<Order>((order) => {
  if (order.kind === "start") opening = open(order);
  else if (order.kind === "end") visits.get(order.id)?.abort();
  else void run(order);
});
input.on("data", (bytes) => orders.push(bytes as Buffer));
// svc has ended.
input.on("close", () => {
  for (const controller of visits.values()) controller.abort();
  void opening?.then(({ proxy }) => proxy.close());
});

async function open({ bind, route }: Order & { kind: "start" }): Promise<Visitors> {
  const proxy = new ForwardProxy({ env, route });
  const port = await proxy.listen(bind.host.replace(/^\[|\]$/g, ""), bind.port);
  return { env, route, proxy, listens: { host: bind.host, port } };
}

async function run({ id, visit }: Order & { kind: "visit" }): Promise<void> {
  const controller = new AbortController();
  visits.set(id, controller);
  const report = (message: Report): void => void output.write(packed(message));
  try {
    const visitors = await (opening as Promise<Visitors>);
    const onEvent = (event: (Report & { kind: "event" })["event"]): void => report({ kind: "event", id, event });
    report({ kind: "done", id, outcome: await visitPage(visit, visitors, onEvent, controller.signal) });
  } catch (error) {
    const { code = "" } = error as { readonly code?: string };
    const text = `the proxy for browsers cannot listen at SVC_BROWSER_PROXY_BIND${code === "" ? "" : `: ${code}`}`;
    report({ kind: "done", id, outcome: { error: "transport_unavailable", text } });
  } finally {
    visits.delete(id);
  }
}

import { setTimeout as sleep } from "node:timers/promises";
import { Histogram } from "./histogram.ts";
import type { Lab, Target } from "./lab.ts";
import { shopScenario } from "./scenarios.ts";

const brand = "lumen";
/** A shopper waits this long for an answer. */
const answerMs = 60_000;

/** The times of the actions of all shoppers, from the request to the part of the answer that a shopper waits for. */
interface Times {
  /** To the first word of an answer. */
  readonly word: Histogram;
  /** To the frame of the cart, after a turn that has put a product into it. */
  readonly cart: Histogram;
  /** To the whole document of a product. */
  readonly catalog: Histogram;
  readonly errors: Map<string, number>;
}

/** Measures what anonymous shoppers of one storefront wait for. Returns the lines of its report. */
export async function runShopScenario(lab: Lab): Promise<string[]> {
  const { name, model, shoppers: most } = shopScenario;
  const shoppers = Math.min(lab.options.streams ?? most, most);
  const seconds = lab.options.seconds ?? shopScenario.seconds;
  const route = { provider: "openai", model, price: { input: 1, output: 1 } };
  const env = {
    ...{ SVC_MODEL_ROUTES: JSON.stringify({ [model]: route }), SVC_DEFAULT_MODEL_ID: model },
    ...{ SVC_SHOP_RATE_LIMIT: "0", SVC_SHOP_TOTAL_RATE_LIMIT: "0", SVC_SHOP_DAILY_TOKENS: "0" },
    ...lab.options.env,
  };
  const targets = await lab.startTargets(["svc"], name, { env });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    await seed(svc);
    await shopAll(svc, Math.ceil(shoppers / 20), Math.ceil(seconds / 6));
    const { word, cart, catalog, errors } = await shopAll(svc, shoppers, seconds);
    svc.assertAlive();
    const count = word.count + cart.count + catalog.count;
    const lines = [
      `shop: ${shoppers} shoppers for ${seconds} s, ${(count / seconds).toFixed(0)} requests a second`,
      ...Object.entries({ "first word": word, cart, catalog }).map(([what, times]) => line(what, times)),
      ...[...errors].map(([what, times]) => `shop: ${times} x ${what}`),
    ];
    for (const each of lines) lab.note(each);
    return lines;
  } finally {
    await targets.stop();
  }
}

function line(what: string, times: Histogram): string {
  const [p50, p99] = [0.5, 0.99].map((part) => times.quantileMs(part).toFixed(1));
  return `shop: ${what} ${p50} ms p50, ${p99} ms p99, ${times.count} times`;
}

async function seed(svc: Target): Promise<void> {
  const identity = { structured_data: { enabled: true } };
  await send(svc, "/brands", { id: brand, name: "Lumen", identity });
  const products = Array.from({ length: shopScenario.products }, (_, at) => ({
    ...{ id: `SKU-${at}`, title: `Lamp ${at}`, price_cents: 1_000 + at, category: `Kind ${at % 12}` },
  }));
  await send(svc, `/brands/${brand}/catalog`, { products });
}

async function send(svc: Target, path: string, body: object): Promise<void> {
  const headers = { ...svc.headers, "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${svc.port}${path}`, {
    ...{ method: "POST", headers, body: JSON.stringify(body) },
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  await response.body?.cancel();
}

async function shopAll({ port }: Target, shoppers: number, seconds: number): Promise<Times> {
  const times: Times = { word: new Histogram(), cart: new Histogram(), catalog: new Histogram(), errors: new Map() };
  const until = performance.now() + seconds * 1_000;
  const shop = async (): Promise<void> => {
    const shopper = new Shopper(port, times);
    for (let turn = 0; ; turn++) {
      await sleep(Math.random() * shopScenario.pauseMs * 2);
      if (performance.now() >= until) return;
      await shopper.act(turn).catch((error: Error) => {
        const { message } = error;
        times.errors.set(message, (times.errors.get(message) ?? 0) + 1);
      });
    }
  };
  await Promise.all(Array.from({ length: shoppers }, shop));
  return times;
}

/** Looks at a product, asks about it, and puts one into the cart, in turn. */
class Shopper {
  readonly #base: string;
  readonly #times: Times;
  #thread: string | undefined;

  constructor(port: number, times: Times) {
    this.#base = `http://127.0.0.1:${port}`;
    this.#times = times;
  }

  async act(turn: number): Promise<void> {
    if (turn % 3 === 0) return this.#look();
    if (turn % 3 === 1) return this.#say("Which lamp fits a desk?", '"event":"text_delta"', this.#times.word);
    return this.#say("Put it into the cart.", '"event":"cart"', this.#times.cart);
  }

  async #look(): Promise<void> {
    const sku = `SKU-${Math.floor(Math.random() * shopScenario.products)}`;
    const from = performance.now();
    const response = await fetch(`${this.#base}/structured/${brand}/products/${sku}`);
    await response.text();
    if (!response.ok) throw new Error(`a product answers ${response.status}`);
    this.#times.catalog.recordMs(performance.now() - from);
  }

  async #say(content: string, awaited: string, times: Histogram): Promise<void> {
    const from = performance.now();
    const response = await fetch(`${this.#base}/shop/${brand}/chat/stream`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content }], thread_id: this.#thread }),
      signal: AbortSignal.timeout(answerMs),
    });
    if (!response.ok || response.body === null) throw new Error(`a turn answers ${response.status}`);
    let text = "";
    let isSeen = false;
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      if (isSeen || !text.includes(awaited)) continue;
      isSeen = true;
      times.recordMs(performance.now() - from);
    }
    if (!isSeen || !text.includes('"event":"done"'))
      throw new Error(`a turn ends without ${awaited}: ${framesOf(text)}`);
    this.#thread ??= /"thread_id":"([^"]+)"/.exec(text)?.[1];
  }
}

/** Returns the names of the frames of a stream, with the details of tools, errors and carts, for the report of a failure. */
function framesOf(text: string): string {
  const lines = text.split("\n").filter((line) => line.startsWith("data: ") && !line.includes('"text_delta"'));
  return lines.map((line) => line.slice(6, 160).replace(/[0-9a-f]{8,}/g, "…")).join(" ");
}

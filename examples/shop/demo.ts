// Starts svc with a brand of 60 products, and a page of the brand with its chat: `npm run demo:shop`. SVC_* variables, such as the key of
// a model provider, reach the server. DEMO_PORT is the port of the page.
import { spawn } from "node:child_process";
import { createServer } from "node:http";

const page = Number(process.env.DEMO_PORT ?? 8_100);
const port = Number(process.env.SVC_PORT ?? 8_101);
const origin = `http://127.0.0.1:${port}`;
const readyMs = 60_000;

const kinds = ["Desk lamp", "Floor lamp", "Wall lamp", "Reading lamp", "Lantern", "Night light"];
const colours = ["black", "white", "brass", "copper", "green", "red", "blue", "sand", "oak", "grey"];

/** The catalog: each kind in each colour. */
const products = kinds.flatMap((kind, row) =>
  colours.map((colour, at) => ({
    id: `${kind.toLowerCase().replaceAll(" ", "-")}-${colour}`,
    title: `${kind}, ${colour}`,
    description: `A ${kind.toLowerCase()} in ${colour}, with a switch in its cable of two metres.`,
    price_cents: 1_900 + row * 800 + at * 150,
    category: kind.endsWith("lamp") ? "Lamps" : "Small lights",
    inventory: at === 9 ? 0 : 5 + at,
    attrs: { colour },
  })),
);

const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Lumen</title>
<style>body { font: 1rem/1.5 system-ui; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }</style>
<h1>Lumen</h1>
<p>Lamps for every corner. Open the chat at the edge of this page, and ask for a lamp.</p>
<script src="${origin}/widget/loader.js" data-storefront="lumen"></script>
</html>
`;

/** Sends a request of the operator, and returns its status. Throws for an unexpected one. */
async function post(path: string, body: object, expected: readonly number[]): Promise<number> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${origin}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!expected.includes(answer.status)) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.status;
}

/** Waits until the server answers. */
async function ready(): Promise<void> {
  for (const until = Date.now() + readyMs; ; ) {
    const isReady = await fetch(`${origin}/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    if (Date.now() > until) throw new Error("the server is not ready");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const server = spawn(process.execPath, ["svc.js", "serve"], {
  stdio: ["ignore", "ignore", "inherit"],
  env: {
    SVC_DATA_DIR: "data/demo-shop",
    SVC_DEMO_MODEL: "true",
    ...process.env,
    ...{ SVC_COMMERCE_ENABLED: "true", SVC_HOST: "127.0.0.1", SVC_PORT: String(port) },
  },
});
const web = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
const end = (): void => {
  web.close();
  web.closeAllConnections();
  server.kill("SIGTERM");
};
process.once("SIGINT", end).once("SIGTERM", end);
server.once("exit", (code) => {
  web.close();
  process.exitCode = code ?? 0;
});

try {
  await ready();
  const identity = {
    greeting: "Hello! Which lamp do you look for?",
    starters: ["Show me desk lamps under 30 dollars"],
  };
  await post("/brands", { id: "lumen", name: "Lumen", identity }, [201, 409]);
  await post("/brands/lumen/catalog", { products }, [200]);
  await new Promise<void>((resolve) => web.listen(page, "127.0.0.1", resolve));
  process.stdout.write(`The shop with ${products.length} products is at http://127.0.0.1:${page} (Ctrl-C ends it).\n`);
} catch (error) {
  end();
  throw error;
}

import assert from "node:assert/strict";
import { calls, inTurn, startMock, turn } from "./chat.ts";
import { eventually } from "./eventually.ts";
import { apiKeys, startServer, type TestServer } from "./server.ts";
import { skillText } from "./skills.ts";
import type { Cleanup } from "./temp.ts";

/** Markup, scripts, addresses, long words and text from right to left, as a model, a tool or a person may send them. */
const evil = [
  '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload="window.pwned=1"></svg>',
  '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe><style>body{display:none}</style><form action="//evil.example">',
  "[click](javascript:window.pwned=1) [data](data:text/html,<script>parent.pwned=1</script>) ![x](https://evil.example/p.png)",
  `שלום עולם ${"averylongword".repeat(60)} \u202eend`,
].join("\n\n");

interface Seeded {
  readonly server: TestServer;
  readonly key: string;
  readonly runId: string;
  readonly evalRunId: string;
  readonly flowRunId: string;
  readonly quoteId: string;
}

/** Starts a server whose tenant has something for every screen of the console. */
export async function seedConsole(atEnd: Cleanup): Promise<Seeded> {
  const { env: keyEnv, keys } = apiKeys({ admin: { sub: evil.slice(0, 60).replaceAll("\n", " "), scopes: ["*"] } });
  const tools = ["calculator"];
  const durable = { execution: { mode: "durable" } };
  const { env, mock } = await startMock(atEnd, {
    models: ["talk", "evil"],
    manifests: {
      talk: { spec: { tools } },
      batch: { spec: { tools, ...durable } },
      gated: { spec: { tools, ...durable, approvals: [{ id: "first", tools, description: evil }] } },
      evil: {
        metadata: { description: evil.slice(0, 400), greeting: { headline: evil.slice(0, 80) } },
        spec: { model: { id: "evil" }, tools },
      },
    },
    env: { ...keyEnv, SVC_COMMERCE_ENABLED: "true" },
  });
  mock.answer("talk", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: ["The answer is **42**."] }));
  mock.answer("evil", inTurn(calls(["calculator", { expression: evil }]), { text: [evil] }));
  const server = await startServer({ atEnd, env });
  const key = keys.admin;
  const send = async (method: string, path: string, body: object) => {
    const { status, text, json } = await server.request(method, path, { key, body });
    assert.ok(status < 300, `${method} ${path}: ${text}`);
    return json;
  };
  const post = (path: string, body: object) => send("POST", path, body);
  const put = (path: string, body: object) => send("PUT", path, body);
  await post("/chat", turn("talk", "How many?", { thread_id: "answered" }));
  await post("/chat", turn("evil", evil, { thread_id: "hostile" }));
  await post("/chat", turn("gated", "Add them.", { thread_id: "gated" }));
  const accepted = await post("/chat", turn("batch", "How many?", { thread_id: "batch" }));
  await post("/documents", { title: evil.slice(0, 90), source: `handbook ${"x".repeat(200)}`, text: evil });
  await post("/memory", { content: evil, manifest_id: "talk" });
  for (const comment of ["first", evil.slice(0, 90)]) {
    const metadata = { name: "stored", description: `${comment} ${evil.slice(0, 90)}` };
    await put("/manifests/stored", { manifest: { metadata, spec: { tools } }, comment });
  }
  const files = (body: string) => ({ "SKILL.md": skillText("pouring", "How to pour tea well, for tests.", { body }) });
  await post("/skill-library", { files: files("# Pouring\n\n1. Pour.\n"), publish: true });
  await put("/skill-library/pouring/versions", {
    ...{ files: files(`# Pouring\n\n${evil}\n`), parent_version: "0.1.0", reason: evil },
  });
  await post("/skill-library/pouring/feedback", { body: evil });
  await put("/eval/datasets/tea", {
    description: evil.slice(0, 400),
    items: [{ item_id: "one", user_input: evil, rubric: { contains: evil } }],
  });
  const evaluated = await post("/eval/runs", { dataset_name: "tea", candidate_manifest: "evil" });
  await eventually("the end of the evaluation", async () => {
    const { json } = await server.get(`/eval/runs/${evaluated.id}`, { key });
    return json.status !== undefined && json.status !== "in_progress";
  });
  const definition = {
    steps: [
      { id: "work", kind: "agent", label: evil.slice(0, 150), config: { manifest: "evil", prompt: evil } },
      { id: "rest", kind: "wait", needs: ["work"], config: { seconds: 3600 } },
    ],
  };
  await put("/workflows/flow", { name: evil.slice(0, 90), definition });
  const flow = await post("/workflows/flow/runs", { inputs: {} });
  const quoteId = await seedShop(post);
  return { server, key, runId: accepted.resume_token, evalRunId: evaluated.id, flowRunId: flow.run_id, quoteId };
}

/** Makes a brand with two products, an order and a quote; returns the id of the quote. */
async function seedShop(post: (path: string, body: object) => Promise<{ readonly id: string }>): Promise<string> {
  await post("/brands", { id: "books", name: evil.slice(0, 90), brand_tenant: "acme" });
  const products = [
    { id: "book", title: "Handbook", price_cents: 1_900, inventory: 2 },
    { id: "wide", title: evil.slice(0, 300), price_cents: 99_999_999, category: evil.slice(0, 60) },
  ];
  await post("/brands/books/catalog", { products });
  await post("/b2b/accounts", { id: "acme-inc", name: "Acme", payment_terms: "net30", credit_limit_cents: 90_000_000 });
  await post("/b2b/accounts/acme-inc/buyers", { id: "bo", spending_limit_cents: 90_000_000 });
  const quoteOf = async (product_id: string, qty: number): Promise<string> => {
    const items = [{ product_id, qty }];
    const made = await post("/b2b/quotes", { account_id: "acme-inc", buyer_id: "bo", items, notes: evil });
    return made.id;
  };
  const ordered = await quoteOf("book", 2);
  for (const move of ["send", "accept", "convert"]) await post(`/b2b/quotes/${ordered}/${move}`, {});
  return quoteOf("wide", 1);
}

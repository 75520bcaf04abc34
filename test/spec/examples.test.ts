// The manifests of examples/: each runs with the requests of examples/README.md and must do what that file says.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { modelTestCertificate } from "../support/certificate.ts";
import { calls, inTurn, startChat, systemOf, wordsOf } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { startDevToolsBrowser } from "../support/devtools-browser.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { Behaviour, Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import { type SearchService, startSearchService } from "../support/search-service.ts";
import type { TestServer } from "../support/server.ts";
import { startShellRunner } from "../support/shell-runner.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { startWebSite } from "../support/web-site.ts";

const chromium = findChromium();
const directory = fileURLToPath(new URL("../../examples/", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const searchKey = "search-key.0123456789-abcdef";
const gatewayToken = "gateway-token.0123456789-abcdef.01";
/** The gateway runs this program for the image `svc/statistics:1`. */
const statistics =
  'const { numbers } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));' +
  "const sum = numbers.reduce((all, one) => all + one, 0);" +
  "console.log(JSON.stringify({ count: numbers.length, sum, mean: sum / numbers.length }));";
const readme = readFileSync(`${directory}README.md`, "utf8");
const examples = readdirSync(directory).flatMap((file) => (file.endsWith(".yaml") ? [file.slice(0, -5)] : []));
const commands = [...readme.matchAll(/^curl (?:-N )?"?http:\/\/127\.0\.0\.1:8080([^\s"]+)"?(?:.* -d '(.*)')?$/gm)];

/** The body of the README's request to `path` that names `name`. */
function body(path: string, name: string): Record<string, unknown> {
  const [, , json = ""] = commands.find(([, to, sent]) => to === path && sent?.includes(`"${name}"`)) ?? [];
  return JSON.parse(json.replace(/'\$\w+'/g, "given"));
}

// Words of a prompt by which the mock recognises the role.
const judges = "You judge the answer";
const chooses = "Choose who answers";
const plans = "You plan the work";
const proofreads = "You write short, exact texts";
const budgets = "You work out budgets";
const quickly = "You are svc's quick agent";

/** The open-weights model that the bundled manifest oss-only names. */
const openModel = "gpt-oss-120b-cf";

/** The cheap model that the bundled manifest hybrid-router chooses with. */
const smallModel = "claude-haiku";

const verdict = (score: number) => ({ text: JSON.stringify({ score, feedback: "Shorter." }) });
const plan = (...titles: string[]) => ({
  text: JSON.stringify({ subtasks: titles.map((title) => ({ title, task: `Work out ${title}.` })) }),
});

describe("examples", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let workspaces: string;
  let search: SearchService;
  let archive: string;
  before(async () => {
    workspaces = tempDir(atEnd);
    search = await startSearchService(atEnd, searchKey);
    const folder = tempDir(atEnd);
    archive = `${folder}/archive`;
    mkdirSync(archive);
    writeFileSync(`${archive}/notes.txt`, "The word is heron.\n");
    writeFileSync(`${folder}/ca.pem`, modelTestCertificate.cert);
    // The program of the archive's server as npm installs it, with the Node of the tests.
    const programs = `${folder}/bin`;
    mkdirSync(programs);
    symlinkSync(process.execPath, `${programs}/node`);
    const program = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-filesystem/dist/index.js"));
    symlinkSync(program, `${programs}/mcp-server-filesystem`);
    // The example serves a folder of the operator's machine.
    const manifests = `${folder}/manifests`;
    cpSync(directory, manifests, { recursive: true });
    const archivist = readFileSync(`${directory}archivist.yaml`, "utf8");
    writeFileSync(`${manifests}/archivist.yaml`, archivist.replace("args: [/srv/archive]", `args: ["${archive}"]`));
    const port = await freePort();
    const site = await startWebSite(atEnd);
    site.on("/", (_, response) => response.setHeader("content-type", "text/html").end("<h1>Example Domain</h1>"));
    const browser = chromium === null ? null : await startDevToolsBrowser(chromium, atEnd);
    const sandbox = spawnSync("bwrap", ["--ro-bind", "/", "/", "true"]).status === 0 ? "bwrap" : "trusted";
    const gateway = await startShellRunner(atEnd, {
      SVC_SHELL_LOCAL: sandbox,
      SVC_SHELL_RUNNER_TOKEN: gatewayToken,
      SVC_SHELL_RUNNER_PROGRAMS: JSON.stringify({
        "svc/statistics:1": [process.execPath, "-e", statistics],
        scripts: [process.execPath],
      }),
      SVC_SHELL_READABLE: root,
      SVC_WORKSPACE_ROOT: workspaces,
    });
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", openModel, smallModel],
      routes: { eyes: { provider: "openai", model: "scripted", modalities: ["text", "image"] } },
      env: {
        SVC_DEFAULT_VISION_MODEL_ID: "eyes",
        SVC_MANIFEST_DIR: manifests,
        SVC_SKILLS_DIR: `${manifests}/skills`,
        SVC_AUDIT_FLUSH_SECONDS: "0.05",
        SVC_SEARCH_BACKEND: "searxng",
        SVC_SEARCH_URL: "https://model.test/searx/",
        SVC_SEARCH_API_KEY: searchKey,
        SVC_EGRESS_CA_FILE: `${folder}/ca.pem`,
        SVC_SHELL_LOCAL: sandbox,
        SVC_CONTAINER_GATEWAY_URL: gateway.url,
        SVC_CONTAINER_GATEWAY_AUTH: gatewayToken,
        SVC_SANDBOXES: JSON.stringify({ scripts: { url: gateway.url, auth: gatewayToken, tenants: "*" } }),
        SVC_SHELL_PATH: `${programs}:/usr/local/bin:/usr/bin:/bin`,
        SVC_SHELL_READABLE: `${folder},${root}`,
        SVC_MCP_STDIO_ALLOWED_COMMANDS: "mcp-server-filesystem",
        SVC_WORKSPACE_ROOT: workspaces,
        SVC_PORT: String(port),
        SVC_BROWSERS: JSON.stringify({ main: { url: browser?.url ?? "http://127.0.0.1:1", tenants: "*" } }),
        // The peer of the example is this server, whose port the tests choose.
        SVC_TEST_RESOLVE: JSON.stringify({
          localhost: `127.0.0.1:${port}`,
          "example.com": `127.0.0.1:${site.port}`,
          "model.test": `127.0.0.1:${search.site.tlsPort}`,
          "birds.example": `127.0.0.1:${search.site.port}`,
        }),
      },
    }));
  });

  /** Answers each request by the first of these words in its prompt. Returns the matched words in order. */
  function script(parts: Readonly<Record<string, Behaviour | readonly Behaviour[]>>): string[] {
    const known: string[] = [];
    mock.answer("scripted", (request) => {
      const text = JSON.stringify(request.body.messages);
      const [words, given] = Object.entries(parts).find(([each]) => text.includes(each)) ?? [];
      assert.ok(words !== undefined && given !== undefined, text);
      const behaviours = [given].flat();
      const reply = behaviours[Math.min(known.filter((each) => each === words).length, behaviours.length - 1)];
      known.push(words);
      return typeof reply === "function" ? reply(request) : (reply as Reply);
    });
    return known;
  }
  async function ask(name: string) {
    const answer = await server.post("/chat", body("/chat", name));
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  }
  const results = (json: { messages: { role: string; content: string }[] }) =>
    json.messages.filter(({ role }) => role === "tool").map(({ content }) => content);

  test("each is requested in the README and compiles, and none names a model", async () => {
    const { data } = (await server.get("/v1/models")).json;
    const listed = new Map(data.map((item: { id: string }) => [item.id, item]));

    assert.equal(examples.length, 23);
    for (const name of examples) {
      assert.equal(body("/chat", name).manifest, name);
      assert.ok(readme.includes(`[${name}.yaml](${name}.yaml)`), name);
      assert.ok(listed.has(name), name);
      assert.ok(!/^ {2}model:/m.test(readFileSync(`${directory}${name}.yaml`, "utf8")), name);
      assert.equal((await server.get(`/manifests/${name}`)).json.manifest.metadata.name, name);
    }
    for (const [, path = ""] of commands.filter(([, path, sent]) => sent === undefined && !path?.includes("$")))
      assert.equal((await server.get(path)).status, 200, path);
  });

  test("clerk answers over A2A, and buyer asks it", async () => {
    const price = "A litre of white paint costs 12.";
    const asked = script({
      "You are the clerk": { text: price },
      "You buy for a painter": inTurn(
        calls(["peer__shop", { message: "What does a litre of white paint cost?", manifest: "clerk" }]),
        { text: "They cost 240." },
      ),
    });

    const { result } = (await server.post("/a2a", body("/a2a", "clerk"))).json;
    const json = await ask("buyer");

    assert.equal(result.artifacts[0].parts[0].text, price);
    assert.deepEqual(results(json), [price]);
    assert.equal(json.final.content, "They cost 240.");
    assert.deepEqual(asked, [
      "You are the clerk",
      "You buy for a painter",
      "You are the clerk",
      "You buy for a painter",
    ]);
  });

  test("governed asks a person before it writes what it has read", async () => {
    const page = { url: "http://example.com/" };
    script({
      "You check a call of a tool": { text: '{"score":0.9}' },
      "You read web pages for your user": inTurn(
        calls(["fetch", page]),
        calls(["write_file", { path: "title.txt", content: "Example Domain" }]),
        { text: "It is written." },
      ),
    });
    const answered = ask("governed");
    const request = await eventually("a request", async () => {
      const { json } = await server.get("/approvals?thread_id=reading");
      return json.items.find(({ thread_id }: { thread_id: string }) => thread_id.endsWith(":reading"));
    });

    const decided = await server.post(`/approvals/${request.approval_id}/decide`, { decision: "approved" });
    const json = await answered;

    assert.equal(decided.status, 200, decided.text);
    assert.deepEqual([request.rule_id, request.evidence.tainted[0].source], ["after-reading", "web:example.com"]);
    assert.match(results(json)[0] ?? "", /Example Domain/);
    assert.equal(json.final.content, "It is written.");
  });

  test("helpdesk answers from a stored page and names it", async () => {
    const stored = await server.post("/documents", body("/documents", "Returns"));
    script({
      "from the handbook": inTurn(calls(["handbook", { query: "return" }]), { text: "Thirty days: see Returns." }),
    });

    const json = await ask("helpdesk");

    assert.equal(stored.status, 200, stored.text);
    assert.match(results(json)[0] ?? "", /Returns.*\nSource: https:\/\/handbook\.example\/returns\n# Returns/);
  });

  test("companion remembers in one conversation and recalls in the next", async () => {
    const asked = (day: string) => {
      const [, , json = ""] = commands.find(([, , sent]) => sent?.includes(`"${day}"`)) ?? [];
      return server.post("/chat", JSON.parse(json));
    };
    script({
      "Which city do I live in?": inTurn(calls(["recall", { query: "which city lives" }]), { text: "Lisbon." }),
      "I have moved to Lisbon": inTurn(calls(["remember", { content: "The user lives in the city of Lisbon." }]), {
        text: "Noted.",
      }),
    });

    await asked("monday");
    const { json } = await asked("friday");
    const { items } = (await server.get("/memory?manifest_id=companion")).json;

    assert.match(results(json)[0] ?? "", /lives in the city of Lisbon/);
    assert.equal(items.length, 1);
  });

  test("surfer reads a page in a browser", async (t) => {
    if (!has(t, chromium !== null, "needs Chromium: apt-get install chromium")) return;
    script({
      "pages that you open in a browser": inTurn(calls(["read_page", { url: "http://example.com" }]), {
        text: "It says: Example Domain.",
      }),
    });

    const json = await ask("surfer");

    assert.match(results(json)[0] ?? "", /^HTTP 200 http:\/\/example\.com\/\n\n## Example Domain/);
    assert.equal(json.final.content, "It says: Example Domain.");
  });

  test("digits stores a long result and reads the end of it", async () => {
    const idIn = (text: string) => /\[artifact ([0-9a-f-]{36}): 382 chars/.exec(text)?.[1] ?? "";
    script({
      "You work out large numbers": ({ body: { messages } }) => {
        const text = JSON.stringify(messages);
        if (!text.includes("tool_call_id")) return calls(["calculator", { expression: "3 ** 800" }]);
        if (text.includes("this is the end")) return { text: "It ends in 6001." };
        return calls(["read_artifact", { artifact_id: idIn(text), offset: 372 }]);
      },
    });

    const json = await ask("digits");
    const [stored = "", page = ""] = results(json);
    const path = "/artifacts/digits/$ARTIFACT_ID";
    const whole = await server.get(path.replace("$ARTIFACT_ID", idIn(stored)));

    assert.ok(commands.some(([, to]) => to === path));
    assert.equal(whole.json.content, String(3n ** 800n));
    assert.ok(page.startsWith(`${String(3n ** 800n).slice(372)}\n`), page);
    assert.equal(json.final.content, "It ends in 6001.");
  });

  test("researcher searches, reads the page that it finds, and names it", async () => {
    const query = "grey heron height";
    const url = "http://birds.example/heron";
    search.finds(query, [{ title: "Grey heron", url, content: "A tall bird." }]);
    search.site.on("/heron", (_request, response) =>
      response
        .writeHead(200, { "content-type": "text/html" })
        .end("<html><body><article><h1>Heron</h1><p>It is one metre tall.</p></article></body></html>"),
    );
    script({
      "answer questions from pages": inTurn(calls(["search", { query }]), calls(["fetch", { url }]), {
        text: `One metre. ${url}`,
      }),
    });

    const json = await ask("researcher");

    const [hits = "", page = ""] = results(json);
    assert.ok(hits.includes(url), hits);
    assert.match(page, /It is one metre tall\./);
    assert.equal(json.final.content, `One metre. ${url}`);
  });

  test("archivist reads a file with the server that svc starts", async () => {
    script({
      "You keep an archive of text files": ({ body: { messages, tools } }) => {
        if (JSON.stringify(messages).includes("The word is")) return { text: "The word is heron." };
        const names = (tools as { function: { name: string } }[]).map((tool) => tool.function.name);
        assert.ok(names.includes("archive__read_text_file") && !names.includes("archive__write_file"), names.join());
        return calls(["archive__read_text_file", { path: `${archive}/notes.txt` }]);
      },
    });

    const json = await ask("archivist");

    assert.deepEqual(results(json), ["The word is heron.\n"]);
    assert.equal(json.final.content, "The word is heron.");
  });

  test("SPEC-049 SPEC-051 SPEC-058 analyst sees its tools, and computes with the program of a container", async () => {
    script({
      "You answer questions about numbers": ({ body: { messages, tools } }) => {
        const names = (tools as { function: { name: string } }[]).map((tool) => tool.function.name);
        assert.deepEqual(names.toSorted(), ["container__statistics", "sandbox__scripts"]);
        return JSON.stringify(messages).includes("mean")
          ? { text: "4." }
          : calls(["container__statistics", { numbers: [2, 4, 6] }]);
      },
    });

    const json = await ask("analyst");

    assert.deepEqual(results(json), ['{"exit_code":0,"output":"{\\"count\\":3,\\"sum\\":12,\\"mean\\":4}\\n"}']);
    assert.equal(json.final.content, "4.");
  });

  test("SKILL-011 barista activates the skill of the folder, and reads the file that it names", async () => {
    script({
      "You serve tea": inTurn(
        calls(["activate_skill", { name: "brewing-tea" }]),
        calls(["read_skill_file", { name: "brewing-tea", path: "references/leaves.md" }]),
        { text: "80 °C." },
      ),
    });

    const json = await ask("barista");

    const [active = "", leaves = ""] = results(json);
    assert.match(systemOf(mock.requests.at(-1)) ?? "", /- brewing-tea: How to brew green, black and white tea\./);
    assert.match(active, /^<skill name="brewing-tea" version="">\n# Brew tea\n\n1\. Find the kind of tea/);
    assert.match(active, /references\/leaves\.md$/);
    assert.match(leaves, /\| Green \| 80 °C /);
    const [, path = ""] = commands.find(([, to]) => to?.startsWith("/skills/barista/")) ?? [];
    await eventually("the activation", async () => {
      const { items } = (await server.get(path)).json;
      return items.some(
        ({ skill, status }: { skill: string; status: string }) => skill === "brewing-tea" && status === "ok",
      );
    });
  });

  test("coder runs the test in its sandbox, mends the file, and runs it again", async () => {
    const run = calls(["run", { argv: ["node", "sum.test.mjs"] }]);
    const edit = { path: "sum.test.mjs", old_string: "a - b", new_string: "a + b" };
    script({ "You fix bugs in the files": inTurn(run, calls(["edit_file", edit]), run, { text: "It subtracted." }) });
    const path = "/chat/workspace/write";
    const stored = await server.post(path, body(path, "sums"));

    const json = await ask("coder");

    const [failed = "", , passed = ""] = results(json);
    assert.equal(stored.status, 200, stored.text);
    assert.match(failed, /^\{"exit_code":1,.*AssertionError/s);
    assert.match(passed, /^\{"exit_code":0,/);
    assert.equal(json.final.content, "It subtracted.");
  });

  test("retoucher converts the picture of its message", async () => {
    script({
      "You prepare pictures": ({ body: { messages } }) => {
        const text = JSON.stringify(messages);
        if (!text.includes("tool_call_id")) return calls(["list_images", {}]);
        if (text.includes("convert_image")) return { text: "A WebP of 32 by 16." };
        const [, file_id = ""] = /([0-9a-f]{32}) image\/png/.exec(text) ?? [];
        return calls(["convert_image", { file_id, format: "webp" }]);
      },
    });

    const { file_id } = (await server.post("/files", body("/files", "logo.png"))).json;
    const asked = JSON.stringify(body("/chat", "retoucher")).replace("given", file_id);

    const { json } = await server.post("/chat", JSON.parse(asked));

    const [listed = "", made = ""] = results(json);
    assert.ok(listed.startsWith(`${file_id} image/png`), listed);
    assert.match(made, /webp.*32 × 16/);
    assert.equal(json.final.content, "A WebP of 32 by 16.");
  });

  test("editor writes a file after a person approves it", async () => {
    const path = "/approvals/$APPROVAL_ID/decide";
    script({
      "files in your workspace": inTurn(calls(["write_file", { path: "notes.md", content: "buy milk\n" }]), {
        text: "Done.",
      }),
    });

    const answering = ask("editor");
    const row = await eventually("a request", async () => {
      const { items } = (await server.get("/approvals?thread_id=notes")).json;
      return items[0] as { approval_id: string; rule_id: string; reason: string } | undefined;
    });
    const early = readdirSync(workspaces, { recursive: true }).filter((file) => String(file).endsWith("notes.md"));
    const decided = await server.post(path.replace("$APPROVAL_ID", row.approval_id), body(path, "approved"));
    const json = await answering;

    assert.deepEqual([row.rule_id, row.reason], ["file-changes", "A file of the workspace is about to change."]);
    assert.deepEqual(early, []);
    assert.equal(decided.status, 200, decided.text);
    assert.equal(json.final.content, "Done.");
    const written = readdirSync(workspaces, { recursive: true }).filter((file) => String(file).endsWith("notes.md"));
    assert.deepEqual(
      written.map((file) => readFileSync(`${workspaces}/${file}`, "utf8")),
      ["buy milk\n"],
    );
  });

  test("project writes a plan that /plans lists with its thread", async () => {
    const steps = [{ title: "Area" }, { title: "Cost" }];
    script({
      plan_create: inTurn(
        calls(["plan_create", { title: "Paint", goal: "The cost", steps }]),
        calls(["calculator", { expression: "3*4*5*7" }]),
        { text: "It costs 420." },
      ),
    });

    const json = await ask("project");

    assert.equal(json.final.content, "It costs 420.");
    const { items } = (await server.get("/plans?thread_id=move")).json;
    assert.deepEqual(
      items.map((row: { plan: { title: string; steps: unknown[] } }) => [row.plan.title, row.plan.steps.length]),
      [["Paint", 2]],
    );
    assert.ok(results(json).includes("420"));
  });

  test("proofread answers with the draft that its verifier accepted, and no other", async () => {
    const known = script({
      [judges]: [verdict(0.7), verdict(0.9)],
      [proofreads]: [{ text: "A long draft." }, { text: "Short." }],
    });

    const json = await ask("proofread");

    assert.equal(json.final.content, "Short.");
    assert.ok(!JSON.stringify(json.messages).includes("A long draft."));
    assert.deepEqual(known, [proofreads, judges, proofreads, judges]);
  });

  test("errands runs its subtasks in order and answers from their results", async () => {
    const known = script({
      [plans]: plan("nights", "meals"),
      "It costs 170.": [{ text: "It costs 84." }, { text: "254 in all." }],
      [budgets]: [calls(["calculator", { expression: "2*85" }]), { text: "It costs 170." }],
    });

    const json = await ask("errands");

    assert.equal(json.final.content, "254 in all.");
    assert.deepEqual(results(json), ["170"]);
    assert.deepEqual(known, [plans, budgets, budgets, "It costs 170.", "It costs 170."]);
  });

  test("reception uses the chosen agent, and quick when no choice is made", async () => {
    const parts = { [judges]: verdict(1), [proofreads]: { text: "I ask for a refund." }, [quickly]: { text: "Hm." } };

    const known = script({ [chooses]: { text: '{"agent":"proofread"}' }, ...parts });
    const chosen = await ask("reception");
    script({ [chooses]: { text: "Whoever." }, ...parts });
    const unclear = await ask("reception");

    assert.equal(chosen.final.content, "I ask for a refund.");
    assert.deepEqual(known, [chooses, proofreads, judges]);
    assert.equal(unclear.final.content, "Hm.");
  });

  test("two-opinions merges two answers into one", async () => {
    const known = script({
      "Compare the answers.": { text: "Yes: both come to 1,049.58." },
      [plans]: plan("tax"),
      "Work out tax.": { text: "1,049.58." },
      [budgets]: { text: "It is cheaper." },
      [quickly]: { text: "Yes." },
    });

    const json = await ask("two-opinions");

    assert.equal(json.final.content, "Yes: both come to 1,049.58.");
    assert.equal(known.at(-1), "Compare the answers.");
    assert.ok(known.includes(quickly) && known.includes(plans));
    const asked = JSON.stringify(mock.requests.at(-1)?.body);
    for (const words of ["It is cheaper.", "Yes."]) assert.ok(asked.includes(words), words);
  });

  test("lead delegates both parts, and each sub-agent sees its own part only", async () => {
    script({
      "You answer for the whole task": inTurn(
        calls(
          ["task", { agent: "errands", prompt: "What are 12 at 18?" }],
          ["task", { agent: "proofread", prompt: "Invite to a party." }],
        ),
        { text: "It costs 216. Do come." },
      ),
      [judges]: verdict(1),
      [plans]: plan("guests"),
      [budgets]: { text: "216." },
      [proofreads]: { text: "Do come." },
    });

    const json = await ask("lead");

    assert.equal(json.final.content, "It costs 216. Do come.");
    assert.deepEqual(results(json), ["216.", "Do come."]);
    const toMember = mock.requests.filter((request) => systemOf(request)?.includes(proofreads)).at(-1);
    assert.match(JSON.stringify(toMember?.body), /Invite to a party\./);
    assert.doesNotMatch(JSON.stringify(toMember?.body), /guests|12 at 18/);
  });

  // test/spec/code-host.test.ts publishes with the first, and test/spec/slack-to-pull-request.test.ts with the second.
  // The third is bundled.
  for (const [name, thread, words] of [
    ["fixer", "bug-7", "You fix bugs"],
    ["repairer", "bug-8", "You repair the website"],
    ["contributor", "bug-9", "You are svc's contributor agent"],
  ] as const)
    test(`${name} gets a refusal on a thread without a repository`, async () => {
      const title = "Count from zero";
      script({
        [words]: inTurn(calls(["publish_commits", { title, branch: "total" }]), { text: "Open one first." }),
      });

      const asked = { manifest: name, thread_id: thread, messages: [{ role: "user", content: "Mend the total." }] };
      const accepted = await server.post("/chat", examples.includes(name) ? body("/chat", name) : asked);
      const messages = await eventually("the end of the run", async () => {
        const { json } = await server.get(`/chat/history/${thread}`);
        return json.messages.at(-1)?.content === "Open one first." ? json.messages : undefined;
      });

      assert.equal(accepted.status, 202, accepted.text);
      assert.match(String(results({ messages })[0]), /this conversation has no repository/);
    });

  test("studio has what clients show, and asks the client and its user mid-turn", async () => {
    const { svc } = (await server.get("/v1/models/studio")).json;
    assert.equal(svc.greeting.headline, "What are we writing today?");
    assert.equal(svc.starters.length, 2);
    assert.deepEqual(
      [svc.commands.map(({ name }: { name: string }) => name), svc.defaultOutputStyle],
      [["draft"], "plain"],
    );
    const draft = { "help people write": { text: "For whom?" } };
    script(draft);
    assert.equal((await ask("studio")).final.content, "For whom?");
    assert.match(
      JSON.stringify(mock.requests.at(-1)?.body),
      /Write a first draft of this.*an invitation to a summer party/,
    );
    assert.match(systemOf(mock.requests.at(-1)) ?? "", /short sentences and plain words\.$/);
    for (const path of ["/chat/style", "/chat/mode"])
      assert.equal((await server.post(path, body(path, "desk"))).status, 200, path);
    script({
      "help people write": inTurn(
        calls(["read_selection", { format: "text" }]),
        calls(["ask_user", { question: "Formal or not?", kind: "select", options: ["formal", "plain"] }]),
        calls(["write_file", { path: "a.md", content: "a" }]),
        { text: "Do come." },
      ),
    });

    const stream = await server.stream("/chat/stream", body("/chat/stream", "studio"));
    const { id } = (await stream.until("tool_request")).json.data;
    await server.post("/chat/tool_result", { ...body("/chat/tool_result", "desk"), tool_call_id: id });
    const { request_id } = (await stream.until("ui_request")).json.data;
    await server.post("/chat/ui", { ...body("/chat/ui", "desk"), request_id });
    const frames = await stream.rest();

    assert.equal(wordsOf(frames), "Do come.");
    const outputs = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.match(outputs[0], /"value":"formal"/);
    assert.match(outputs[1], /plan/);
    assert.match(JSON.stringify(mock.requests.at(-1)?.body), /We would be glad if you could come\./);
    assert.match(systemOf(mock.requests.at(-1)) ?? "", /Write warmly, as to a friend\./);
  });

  test("the bundled router lets quick answer, or oss-only on its open-weight model", async () => {
    const go = async () =>
      (await server.post("/chat", { manifest: "router", messages: [{ role: "user", content: "Go." }] })).json.final;
    mock.answer(openModel, { text: "Open." });

    for (const [agent, said] of [
      ["oss-only", "Open."],
      ["quick", "Quick."],
      ["nobody", "Quick."],
    ]) {
      script({ [chooses]: { text: JSON.stringify({ agent }) }, [quickly]: { text: "Quick." } });
      assert.equal((await go()).content, said, agent);
    }
    assert.match(
      systemOf(mock.requests.find(({ model }) => model === openModel)) ?? "",
      /^You are svc's oss-only agent/,
    );
  });

  test("the bundled triage reads a file and answers with the object of its schema", async () => {
    const verdict = {
      ...{ kind: "bug", severity: "high", security: false, area: "totals", files: ["total.ts"] },
      ...{ summary: "The total is off by one.", missing: [], next_step: "Mend total.ts." },
    };
    script({
      "You are svc's triage agent": inTurn(calls(["read_file", { path: "total.ts" }]), {
        text: JSON.stringify(verdict),
      }),
    });
    const file = { thread_id: "triage", manifest: "triage", path: "total.ts", content: "sum + 1" };
    assert.equal((await server.post("/chat/workspace/write", file)).status, 200);

    const messages = [{ role: "user", content: "The total is wrong." }];
    const { json } = await server.post("/chat", { manifest: "triage", thread_id: "triage", messages });

    assert.deepEqual(JSON.parse(json.final.content), verdict);
    assert.match(String(results(json)[0]), /sum \+ 1/);
    const sent = JSON.parse(JSON.stringify(mock.requests.at(-1)?.body));
    assert.equal(sent.response_format.json_schema.schema.properties.severity.enum[0], "critical");
    const offered = sent.tools.map(({ function: { name } }: { function: { name: string } }) => name);
    const reading = ["glob", "list_dir", "read_file", "search_docs", "search_files", "trigger_event"];
    assert.deepEqual(offered.sort(), reading);
  });

  test("the bundled hybrid-router chooses by a small model, quick if it is unreadable", async () => {
    const go = async () =>
      (await server.post("/chat", { manifest: "hybrid-router", messages: [{ role: "user", content: "Go." }] })).json;
    script({ [quickly]: { text: "Quick." } });
    mock.answer(openModel, { text: "Open." });
    mock.answer(smallModel, { text: '{"agent":"oss-only"}' }, { text: "Well." });

    assert.equal((await go()).final.content, "Open.");
    assert.equal((await go()).final.content, "Quick.");

    assert.match(systemOf(mock.requests.find(({ model }) => model === smallModel)) ?? "", /when in doubt/);
  });
});

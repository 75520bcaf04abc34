// The main job of each screen of the console, and hostile texts shown as text.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { turn } from "../support/chat.ts";
import { findProblems } from "../support/console-browser.ts";
import { eventually } from "../support/eventually.ts";
import { skillText } from "../support/skills.ts";
import { evil, type SharedConsole } from "./shared.ts";

export function screenTests(shared: SharedConsole): void {
  const { keys, leave, open, post, put, ready, visit } = shared;

  test("asks for a key, refuses a wrong one, and keeps a right one in the tab only", async (t) => {
    if (!ready(t)) return;
    const page = await open();
    await page.getByLabel("API key or token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The server does not accept this key").waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByLabel("API key or token").fill(keys.admin);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Chat" }).waitFor();

    const kept = await page.evaluate(
      "[sessionStorage.getItem('svc.key'), JSON.stringify(localStorage), document.cookie]",
    );
    assert.deepEqual(kept, [keys.admin, "{}", ""]);
    assert.ok(!page.url().includes(keys.admin));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key or token").waitFor();
    assert.equal(await page.evaluate("sessionStorage.getItem('svc.key')"), null);
    await page.close();
  });

  test("Chat streams an answer with its thoughts, calls and steps", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/chat?manifest=talk");
    await say(page, "What is 6 * 7?");

    await page.getByText("The answer is 42.").waitFor();
    await page.getByRole("button", { name: "Copy answer" }).waitFor({ state: "attached" });

    assert.equal(await page.locator(".markdown strong").textContent(), "42");
    await page.locator("summary", { hasText: "calculator" }).click();
    assert.match((await page.getByRole("region", { name: "Result of calculator" }).textContent()) ?? "", /^42$/);
    await page.getByText("Thoughts").waitFor();
    await page.getByText("0 of 1 steps").waitFor();
    assert.deepEqual(await findProblems(page), []);
    leave(page);
  });

  test("Chat decides an approval inline", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/chat?manifest=sums");
    await say(page, "What is 1 + 1?");

    await page.getByRole("button", { name: "Approve" }).click();

    await page.getByText("It is 2.").waitFor();
    leave(page);
  });

  test("Chat edits a message, and goes back to the other branch", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/chat?manifest=talk");
    await say(page, "First");
    await page.getByText("The answer is 42.").waitFor();
    await say(page, "Second");
    await page.getByRole("button", { name: "Edit and send again" }).nth(1).waitFor({ state: "attached" });
    await page.getByText("Second", { exact: true }).hover();
    await page.getByRole("button", { name: "Edit and send again" }).nth(1).click();
    await eventually("the text in the field", async () => (await page.locator("textarea").inputValue()) === "Second");
    await say(page, "Other");

    await page.getByText("2 / 2").waitFor();
    await page.getByRole("button", { name: "Previous version" }).click();

    await page.getByText("Second", { exact: true }).waitFor();
    await page.getByText("1 / 2").waitFor();
    leave(page);
  });

  test("Chat shows hostile texts as text", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/chat?manifest=evil");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await say(page, evil);
    await page.getByRole("button", { name: "Copy answer" }).waitFor({ state: "attached" });
    await page.locator("summary", { hasText: "calculator" }).click();

    assert.equal(await page.evaluate("window.pwned"), undefined);
    assert.equal(await page.locator("main :is(script, iframe, style, img, form[action])").count(), 0);
    assert.equal(await page.locator("main a[href^='javascript']").count(), 0);
    for (const url of asked) assert.ok(url.startsWith(shared.server.url) || url.startsWith("blob:"), url);
    leave(page);
  });

  test("Threads finds, opens, exports and deletes", async (t) => {
    if (!ready(t)) return;
    for (const id of ["apples", "pears"]) await post("/chat", turn("talk", `How many ${id}?`, { thread_id: id }));
    const page = await visit("#/threads");
    await page.getByText("How many pears?").waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByLabel("Search in messages").fill("apples");
    await page.getByRole("link", { name: /How many apples/ }).waitFor();
    await page.getByText("How many pears?").waitFor({ state: "detached" });
    await page.getByLabel("Search in messages").fill("");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Actions for How many pears?" }).click();
    await page.getByRole("menuitem", { name: "Export" }).click();
    assert.equal((await saved).suggestedFilename(), "pears.ndjson");
    await page.getByRole("button", { name: "Actions for How many pears?" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();

    await page.getByText("How many pears?").waitFor({ state: "detached" });
    await page.getByRole("link", { name: /How many apples/ }).click();
    await page.getByText("The answer is 42.").waitFor();
    leave(page);
  });

  test("Inbox approves with edited arguments, and shows what was decided", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("gated", "Add them.", { thread_id: "gated" }));
    const page = await visit("#/inbox", 390);
    await page.getByText("May calculator run?").first().waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("button", { name: "Edit arguments" }).click();
    await page.getByLabel("Arguments as JSON").fill('{"expression": "2 + 2"}');
    await page.getByLabel("Note").fill("rather this");
    await page.getByRole("button", { name: "Approve edited" }).click();
    await page.getByText("No approval waits").waitFor();
    await page.getByRole("button", { name: "Approved", exact: true }).click();
    await page.locator("summary", { hasText: "gated" }).first().click();

    await page.getByText("“rather this”").waitFor();
    await page.getByText("2 + 2").waitFor();
    leave(page);
  });

  test("Inbox and Run show the untrusted sources of a call", async (t) => {
    if (!ready(t)) return;
    const { json } = await post("/chat", turn("tainted", "Read it.", { thread_id: "tainted" }));
    const page = await visit("#/inbox");
    const request = page.locator(".inbox-item", { hasText: "tainted" });
    await request.getByText("from file").waitFor();
    await request.getByText("What the agent has read from outside").click();
    await request.getByText("Words of a file.").waitFor();
    assert.deepEqual(await findProblems(page), []);
    await request.getByRole("button", { name: "Deny" }).click();
    await page.goto(`${shared.server.url}/console#/run/${json.resume_token}`);

    await page.getByText("from file").first().waitFor();
    await page.getByText(/^approvals (deny|wait)/).waitFor();
    await page
      .getByText(/^passed by limits/)
      .first()
      .waitFor();
    assert.deepEqual(await findProblems(page), []);
    leave(page);
  });

  test("Runs leads to a run with its time axis, its requests and a comparison", async (t) => {
    if (!ready(t)) return;
    for (const id of ["one", "two"]) await post("/chat", turn("batch", `Sum ${id}`, { thread_id: id }));
    const page = await visit("#/runs?status=completed");
    await page.getByText("two").waitFor();
    await page.getByText("one", { exact: true }).waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("link", { name: /batch\s+two/ }).click();
    await page
      .getByRole("button", { name: /sums.*tokens/ })
      .first()
      .click();
    await page.getByRole("heading", { name: "Request 1 of 2" }).waitFor();
    await page.getByRole("region", { name: "Part of the request" }).getByText("Sum two").waitFor();
    await page.getByLabel("Other run").selectOption({ index: 1 });
    await page.getByRole("rowheader", { name: "Model calls" }).waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("button", { name: "Fork and send again" }).click();

    await eventually(
      "the message to send again",
      async () => (await page.locator("textarea").inputValue()) === "Sum two",
    );
    leave(page);
  });

  test("Workflows draws a graph, starts a run and follows it to its end", async (t) => {
    if (!ready(t)) return;
    const definition = {
      inputs: { name: { type: "text", required: true }, tags: { type: "list" } },
      steps: [
        {
          id: "ask",
          kind: "agent",
          label: evil.slice(0, 150),
          config: { manifest: "plain", prompt: "Greet {{inputs.name}}." },
        },
        { id: "check", kind: "approval", needs: ["ask"], config: { message: "Send it?", ttl_seconds: 600 } },
        {
          ...{ id: "send", kind: "template", when: "steps.check.approved == true" },
          config: { text: "To {{inputs.name}}: {{steps.ask.text}}" },
        },
      ],
      outputs: { text: "$steps.send.text" },
    };
    await put("/workflows/greeting", { name: "Greeting", definition });
    const page = await visit("#/workflows");
    await page.getByRole("button", { name: /^check/ }).waitFor();
    assert.equal(await page.locator(".flow-arrow").count(), 3);
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("button", { name: "Start a run" }).click();
    assert.deepEqual(await findProblems(page), []);
    await page.getByLabel("name").fill("Ann");
    await page.getByLabel("tags").fill("new");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("alert").getByText("tags is not JSON.").waitFor();
    await page.getByLabel("tags").fill('["new"]');
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("button", { name: /^check.*waiting/ }).click();
    await page.getByRole("link", { name: "Decide it in the inbox" }).waitFor();
    assert.deepEqual(await findProblems(page), []);
    const { items } = (await shared.server.request("GET", "/approvals?status=pending", { key: keys.admin })).json;
    const asked = items.find(({ rule_id }: { rule_id: string }) => rule_id === "workflow:check");
    await post(`/approvals/${asked.approval_id}/decide`, { decision: "approved" });

    await page.getByRole("region", { name: "Outputs of the run" }).getByText("To Ann: Good.").first().waitFor();
    assert.equal(await page.locator(".flow-step.succeeded").count(), 3);
    await page.locator(".flow-step").first().click();
    await page.getByRole("region", { name: "Input of ask" }).getByText("Ann").waitFor();
    await page.getByRole("region", { name: "Output of ask" }).getByText("Good.").waitFor();
    await page.getByRole("region", { name: "Transcript" }).getByText("Greet Ann.").waitFor();
    assert.deepEqual(await findProblems(page), []);
    assert.equal(await page.evaluate("window.pwned"), undefined);
    leave(page);
  });

  test("Workflows cancels a run, and shows one of an old or deleted workflow", async (t) => {
    if (!ready(t)) return;
    const definition = {
      steps: [
        { id: "rest", kind: "wait", config: { seconds: 3600 } },
        { id: "after", kind: "template", needs: ["rest"], config: { text: "x" } },
      ],
    };
    await put("/workflows/resting", { name: "Resting", definition });
    const started = await post("/workflows/resting/runs", { inputs: {} });
    const at = `#/workflows/resting/${started.json.run_id}`;
    const watching = await open({ key: keys.reader, at });
    await watching.getByRole("button", { name: /^rest.*waiting/ }).waitFor();
    assert.equal(await watching.getByRole("button", { name: "Cancel the run" }).count(), 0);
    const page = await visit(at, 390);
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the run" }).click();

    await watching.getByRole("status").getByText("cancelled").waitFor();
    await page.getByRole("button", { name: /^after.*cancelled/ }).waitFor();
    await put("/workflows/resting", { name: "Resting", definition: { steps: definition.steps.slice(0, 1) } });
    await page.reload();
    await page.getByText("The workflow now has revision 2.").waitFor();
    assert.equal(await page.locator(".flow-step").count(), 2);
    await page.locator(".flow-arrow").waitFor({ state: "attached" });
    await shared.server.request("DELETE", "/workflows/resting", { key: keys.admin });
    await page.reload();
    await page.getByText("The workflow was deleted.").waitFor();
    await page.locator(".flow-arrow").waitFor({ state: "attached" });
    assert.deepEqual(await findProblems(page), []);
    leave(page);
    await watching.close();
  });

  test("Agents stores a checked version, compares it and goes back", async (t) => {
    if (!ready(t)) return;
    const manifest = { metadata: { name: "stored" }, spec: { tools: ["calculator"] } };
    await put("/manifests/stored", { manifest, comment: "the first" });
    const page = await visit("#/agents/stored");
    await page.getByRole("cell", { name: "reads" }).waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("button", { name: "Edit", exact: true }).click();
    const editor = page.getByLabel("Manifest as YAML");
    await editor.fill("metadata: { name: stored }\nspec:\n  exec");
    await editor.press("Control+End");
    await editor.pressSequentially("ut");
    await page.getByRole("option", { name: /^execution/ }).click();
    await page.getByText("execution: ").first().waitFor();
    await editor.fill(JSON.stringify({ ...manifest, spec: { tools: ["nothing"] } }));
    await page
      .getByText(/nothing/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Store stored" }).and(page.locator(":disabled")).waitFor();
    await editor.fill(JSON.stringify({ ...manifest, spec: { tools: ["calculator", "todo_write"] } }));
    await page.getByRole("cell", { name: '["calculator","todo_write"]' }).waitFor();
    await page.getByRole("button", { name: "Store stored" }).click();
    await page.getByText("Stored version 2").waitFor();
    await page.getByRole("button", { name: "Versions" }).click();
    await page.getByText('+ "todo_write"').or(page.locator(".added")).first().waitFor();
    await page
      .getByRole("row", { name: /the first/ })
      .getByRole("button", { name: "Activate" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Activate" }).click();

    await page.getByRole("rowheader", { name: /^1 active/ }).waitFor();
    leave(page);
  });

  test("Knowledge adds a document, finds it, and forgets and restores a memory", async (t) => {
    if (!ready(t)) return;
    await post("/memory", { content: "The customer likes tea.", manifest_id: "talk" });
    const page = await visit("#/knowledge");
    await page.getByText("No document yet").waitFor();
    await page.getByRole("button", { name: "Add a document" }).click();
    const text = {
      name: '<img src=x onerror="window.pwned=1">.md',
      mimeType: "text/markdown",
      buffer: Buffer.from("Tea needs water."),
    };
    await page.locator("dialog input[type=file]").setInputFiles(text);
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText(/^Added /).waitFor();
    await page.getByLabel("Search in documents").fill("water");

    await page.getByText("Tea needs water.").waitFor();
    assert.equal(await page.evaluate("window.pwned"), undefined);
    await page.getByRole("button", { name: "Memory" }).click();
    await page.getByText("The customer likes tea.").waitFor();
    await page.getByRole("button", { name: "Forget" }).click();
    await page.getByRole("button", { name: "Restore" }).click();
    await page.getByRole("button", { name: "Forget" }).waitFor();
    assert.deepEqual(await findProblems(page), []);
    leave(page);
  });

  test("Usage, Audit and Health show what the server counts", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("talk", "Count this."));
    const page = await visit("#/usage");
    await page.getByRole("rowheader", { name: "talk" }).waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByLabel("Type of event").fill("tool_call");
    await page.getByLabel("Type of event").press("Enter");
    await page.locator("summary", { hasText: "tool_call" }).first().click();
    await page.getByRole("region", { name: "Payload" }).getByText("calculator").first().waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("The record is complete and unchanged.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("link", { name: "Health" }).click();
    await page.getByText("Requests answered").waitFor();
    await page.getByText("works").first().waitFor();

    assert.deepEqual(await findProblems(page), []);
    leave(page);
  });

  test("Skills publishes and rejects drafts after a review, and accepts feedback", async (t) => {
    if (!ready(t)) return;
    const files = (body: string) => ({
      "SKILL.md": skillText("pouring", "How to pour tea well, for tests.", { body }),
    });
    await post("/skill-library", { files: files("# Pouring\n\n1. Pour.\n"), publish: true });
    await put("/skill-library/pouring/versions", {
      ...{ files: { ...files(`# Pouring\n\n1. Pour slowly. ${evil}\n`), "scripts/run.sh": "eval $1" } },
      ...{ parent_version: "0.1.0", reason: `Slower ${evil}` },
    });
    await post("/skill-library/pouring/feedback", { body: `Say how high. ${evil}` });
    const page = await visit("#/skills");
    await page.getByRole("link", { name: /pouring 0.1.1/ }).waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("link", { name: /pouring 0.1.1/ }).click();
    await page.getByText("+ 1. Pour slowly.").waitFor();
    await page.getByText("It cannot be published: the security scan fails.").waitFor();
    await page.getByRole("button", { name: "Publish" }).and(page.locator(":disabled")).waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByLabel("File").selectOption("scripts/run.sh");
    await page.getByText("+ eval $1").waitFor();
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByRole("dialog").getByLabel("Why").fill("Unsafe.");
    await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await page.getByText("Unsafe.").waitFor();

    await put("/skill-library/pouring/versions", {
      files: files("# Pouring\n\n1. Pour high.\n"),
      parent_version: "0.1.1",
    });
    await page.goto(`${page.url().split("#")[0]}#/skills/pouring/0.1.2`);
    await page.reload();
    await page.getByRole("button", { name: "Publish" }).click();
    await page.getByText("Version 0.1.2 is live").waitFor();
    await page.getByRole("button", { name: "Evaluate 0.1.2" }).click();
    await page.locator("summary", { hasText: /(queued|running|succeeded|failed) ada/ }).waitFor();
    assert.deepEqual(await findProblems(page), []);

    await page.getByRole("link", { name: "All skills" }).click();
    await page.getByRole("button", { name: "Feedback" }).click();
    await page.getByText("Say how high.").waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("button", { name: "Accept only" }).click();
    await page.getByText("No feedback is pending").waitFor();
    assert.equal(await page.evaluate("window.pwned"), undefined);
    leave(page);
  });

  test("Quality makes items of a question and of a thread, runs them, and compares two runs", async (t) => {
    if (!ready(t)) return;
    await post("/chat", turn("talk", `Rate this ${evil}`, { thread_id: "rated" }));
    const page = await visit("#/quality");
    await page.getByLabel("New dataset").fill("tea");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("textbox", { name: "Question" }).fill("What is 6 * 7?");
    await page.getByLabel("The answer contains").fill("42");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("cell", { name: "What is 6 * 7?" }).waitFor();
    await page.getByLabel("From").selectOption("thread");
    await page.getByLabel("Thread", { exact: true }).fill("rated");
    await page.getByLabel("The answer contains").fill("nothing such");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("cell", { name: /Rate this/ }).waitFor();
    assert.deepEqual(await findProblems(page), []);

    for (const agent of ["plain", "talk"]) {
      await page.goto(`${page.url().split("#")[0]}#/quality/dataset/tea`);
      await page.getByLabel("Agent").selectOption(agent);
      await page.getByRole("button", { name: "Evaluate it" }).click();
      await page.getByText(agent === "talk" ? "50 %" : "0 %", { exact: true }).waitFor();
    }
    await page.getByLabel("Baseline").selectOption({ index: 1 });
    await page.getByText("+50 percentage points").waitFor();
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("link", { name: "All runs" }).click();
    await page.getByRole("link", { name: /plain\s+on tea/ }).waitFor();
    assert.deepEqual(await findProblems(page), []);
    assert.equal(await page.evaluate("window.pwned"), undefined);
    leave(page);
  });

  test("offers a caller who may only read no way to write", async (t) => {
    if (!ready(t)) return;
    const page = await open({ key: keys.reader, at: "#/chat" });

    await page.getByRole("button", { name: "Attach an image" }).waitFor({ state: "detached" });
    await page.close();
  });
}

async function say(page: Page, text: string): Promise<void> {
  const field = page.getByRole("textbox", { name: "Message", exact: true });
  await field.fill(text);
  await field.press("Enter");
}

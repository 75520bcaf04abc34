// Models of controls that never answer. Each control gives up after 20 seconds, so these tests are not in the gate.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, never, says, shown, startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

describe("controls whose models hang", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const tools = ["read_file", "write_file"];
    const judges = [{ name: "tone", criteria: "Be kind.", model: "judge" }];
    const screening = { enabled: true, model: "screener" };
    ({ server, mock } = await startChat(atEnd, {
      models: ["calling", "plain", "judge", "screener"],
      providers: { workers_ai: { api_key: "cf-key" } },
      manifests: {
        judged: { model: { id: "calling" }, tools, guardrails: { judges } },
        strict: { model: { id: "plain" }, content_screening: { ...screening, on_flag: "block" } },
        fencing: { model: { id: "plain" }, content_screening: screening },
        decided: {
          model: { id: "plain" },
          decider: { id: "clef" },
          content_screening: { ...screening, decider: true, on_flag: "block" },
        },
      },
      env: { SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
    for (const model of ["judge", "screener", "clef", "@cf/cloudflare/clef"]) mock.answer(model, says(never));
    mock.answer("plain", { text: "Done." });
    mock.answer(
      "calling",
      inTurn(calls(["read_file", { path: "none" }], ["write_file", { path: "a", content: "" }]), { text: "Done." }),
    );
  });

  test("a hanging judge, screener or decider ends after its deadline, and the safe side holds", async () => {
    const ask = (manifest: string) => server.post("/chat", turn(manifest, "A request.", { thread_id: manifest }));

    const [judged, strict, fencing, decided] = await Promise.all(["judged", "strict", "fencing", "decided"].map(ask));

    assert.equal(judged?.status, 200, judged?.text);
    const results = shown(mock.requests.findLast(({ model }) => model === "calling")).flatMap(({ role, content }) =>
      role === "tool" ? [content] : [],
    );
    assert.doesNotMatch(results[0] ?? "", /denied/);
    assert.equal(results[1], "denied by guardrails: judge tone is unavailable");
    assert.deepEqual([strict?.status, strict?.json.error], [503, "content_screening_unavailable"], strict?.text);
    // The model is asked after the decider, and the request ends before both deadlines have passed.
    assert.equal(decided?.status, 503, decided?.text);
    assert.equal(fencing?.status, 200, fencing?.text);
    const said = shown(mock.requests.findLast(({ model }) => model === "plain")).findLast(
      ({ role }) => role === "user",
    );
    assert.notEqual(said?.content, "A request.");
    assert.ok(said?.content.includes("A request."));
  });
});

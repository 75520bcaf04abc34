// Guardrails without plugins/pii: three patterns, with a warning.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

describe("guardrails without the detectors of svc", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const guardrails = { providers: ["pii"], targets: ["final_response"] };
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["model"],
      manifests: { agent: { guardrails } },
      env: { SVC_PII_DETECTORS: "false" },
    }));
  });

  test("GOV-015 three patterns are used, which a warning and a counter say", async () => {
    mock.answer("model", { text: "ann@example.com, 4111 1111 1111 1111, +49 30 901820, DE89 3704 0044 0532 0130 00" });

    const { json } = await server.post("/chat", turn("agent", "go"));

    assert.equal(json.final.content, "<EMAIL>, <CREDIT_CARD>, <PHONE>, DE89 3704 0044 0532 0130 00");
    await eventually("the warning", async () =>
      server.logs.some(({ level, msg }) => level === "warn" && msg.includes("SVC_PII_DETECTORS")),
    );
    const { text } = await server.get("/metrics");
    assert.match(text, /svc_control_degraded_total\{control="guardrails",manifest_id="agent",reason="patterns"\} 1/);
  });
});

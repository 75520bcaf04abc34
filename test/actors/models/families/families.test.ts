// Seven families of providers, each as a strict stand-in that refuses the same requests as the real API
// (test/support/families/), tested on every entry point. At most 15 cases for each family.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type FamilyCase, startFamilies, type Talk } from "../../../support/families/talk.ts";
import { cleanup } from "../../../support/temp.ts";
import { anthropicCases } from "./anthropic-cases.ts";
import { gatewaysCases } from "./gateways-cases.ts";
import { geminiCases } from "./gemini-cases.ts";
import { localCases } from "./local-cases.ts";
import { mistralCases } from "./mistral-cases.ts";
import { openAiCases } from "./openai-cases.ts";
import { thinkersCases } from "./thinkers-cases.ts";

const casesMax = 15;

/** The cases of each family, and their default route. */
const table: Readonly<Record<string, { readonly route: string; readonly cases: readonly FamilyCase[] }>> = {
  OpenAI: { route: "gpt", cases: openAiCases },
  Anthropic: { route: "claude", cases: anthropicCases },
  Gemini: { route: "gemini", cases: geminiCases },
  Mistral: { route: "mistral", cases: mistralCases },
  "DeepSeek and Kimi": { route: "deepseek", cases: thinkersCases },
  "OpenRouter and LiteLLM": { route: "openrouter", cases: gatewaysCases },
  "Ollama and llama.cpp": { route: "ollama", cases: localCases },
};

/** Manifests added to those of the routes. */
const manifests: Readonly<Record<string, object>> = {
  "gpt-then-gemini": { model: { id: "gpt", fallbacks: ["gemini"] }, tools: ["calculator"] },
  "gemini-then-gpt": { model: { id: "gemini", fallbacks: ["gpt"] }, tools: ["calculator"] },
  "gpt-then-mistral": { model: { id: "gpt", fallbacks: ["mistral"] }, tools: ["calculator"] },
  "gpt-then-deepseek": { model: { id: "gpt", fallbacks: ["deepseek"] }, tools: ["calculator"] },
  "gpt-or-gemini": { model: { id: "gpt", fallbacks: ["gemini"] } },
  "claude-one-step": { model: { id: "claude" }, tools: ["calculator"], recursion_limit: 1 },
  "local-schema": { model: { id: "llama-cpp" }, output_schema: answerOf("n", "integer") },
  "local-router": { model: { id: "llama-cpp" }, pattern: "router", sub_agents: ["ollama", "llama-cpp"] },
  "local-planner": { model: { id: "llama-cpp" }, pattern: "plan_execute" },
  "local-judge": { model: { id: "ollama" }, pattern: "reflect", reflect: { verifier_model: "llama-cpp" } },
};

function answerOf(name: string, type: string) {
  return { type: "object", properties: { [name]: { type } }, required: [name] };
}

describe("families of providers", () => {
  const atEnd = cleanup();
  let talk: (title: string, route: string) => Talk;
  before(async () => {
    talk = await startFamilies(atEnd, manifests);
  });

  for (const [family, { route, cases }] of Object.entries(table)) {
    test(`${family} has at most ${casesMax} cases`, () => {
      assert.ok(cases.length > 0 && cases.length <= casesMax);
    });
    for (const { title, run, ...of } of cases) {
      test(`${family}: ${title}`, async () => {
        const talking = talk(title, of.route ?? route);

        await run(talking);

        assert.deepEqual(talking.model.refused, []);
        assert.deepEqual(talking.anthropic.refused.splice(0), []);
      });
    }
  }
});

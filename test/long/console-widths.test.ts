// Every screen of the console at all widths and in both themes: nothing is wider than the page, and axe-core finds nothing.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { findChromium } from "../support/chromium.ts";
import { type ConsoleBrowser, findProblems, openConsole, startConsoleBrowser } from "../support/console-browser.ts";
import { seedConsole } from "../support/console-seed.ts";
import { has } from "../support/needs.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const widths = [360, 800, 1280, 2200];
const themes = ["light", "dark"] as const;

describe("the screens of the console", () => {
  const atEnd = cleanup();
  const executable = findChromium();
  let server: TestServer;
  let browser: ConsoleBrowser;
  let key: string;
  let screens: Readonly<Record<string, { at: string; sign: string }>>;
  before(async () => {
    if (executable === null) return;
    const seeded = await seedConsole(atEnd);
    ({ server, key } = seeded);
    browser = await startConsoleBrowser(executable, atEnd);
    screens = {
      "a new chat": { at: "#/chat", sign: "What shall we look at?" },
      "a chat": { at: "#/chat/answered", sign: "The answer is 42." },
      "a hostile chat": { at: "#/chat/hostile", sign: "averylongword" },
      inbox: { at: "#/inbox", sign: "May calculator run?" },
      threads: { at: "#/threads", sign: "How many?" },
      runs: { at: "#/runs", sign: "completed" },
      run: { at: `#/run/${seeded.runId}`, sign: "Model calls" },
      "a workflow": { at: "#/workflows/flow", sign: "Start a run" },
      "a run of a workflow": { at: `#/workflows/flow/${seeded.flowRunId}`, sign: "Inputs" },
      "an agent": { at: "#/agents/stored", sign: "At most" },
      "versions of an agent": { at: "#/agents/stored?tab=versions", sign: "first" },
      knowledge: { at: "#/knowledge", sign: "handbook" },
      memory: { at: "#/knowledge?tab=memory", sign: "averylongword" },
      skills: { at: "#/skills", sign: "pouring 0.1.1" },
      "all skills": { at: "#/skills?tab=library", sign: "latest 0.1.1" },
      feedback: { at: "#/skills?tab=feedback", sign: "averylongword" },
      "a skill": { at: "#/skills/pouring/0.1.1", sign: "The security scan" },
      quality: { at: "#/quality", sign: "tea" },
      "a dataset": { at: "#/quality/dataset/tea", sign: "averylongword" },
      "an evaluation": { at: `#/quality/run/${seeded.evalRunId}`, sign: "contains" },
      usage: { at: "#/usage", sign: "Highest day" },
      audit: { at: "#/audit", sign: "final_response" },
      orders: { at: "#/orders", sign: "Handbook" },
      catalog: { at: "#/catalog", sign: "Handbook" },
      quotes: { at: "#/quotes", sign: "acme-inc" },
      "a quote": { at: `#/quotes/${seeded.quoteId}`, sign: "Lines" },
      health: { at: "#/health", sign: "Requests answered" },
    };
  });

  for (const width of widths)
    for (const theme of themes)
      test(`have no problem at ${width} px in ${theme} colours`, async (t) => {
        if (!has(t, executable !== null, "needs Chromium: apt-get install chromium")) return;
        const page = await openConsole(browser, server, { key, width, theme });
        const found: string[] = [];
        for (const [name, { at, sign }] of Object.entries(screens)) {
          await page.goto(`${server.url}/console${at}`);
          await page.locator("main").getByText(sign).first().waitFor();

          for (const problem of await findProblems(page)) found.push(`${name}: ${problem}`);
          if (await page.evaluate("document.documentElement.scrollWidth > innerWidth"))
            found.push(`${name} is too wide`);
          if ((await page.evaluate("window.pwned")) !== undefined) found.push(`${name} runs a script`);
        }
        await page.close();

        assert.deepEqual(found, []);
      });
});

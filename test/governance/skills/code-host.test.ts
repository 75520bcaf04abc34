// The client of the code host, against a stand-in that refuses requests for its rate.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Outgoing } from "../../../governance/egress/outgoing.ts";
import { SecretMask, Secrets } from "../../../governance/secret-mask.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { CodeHost } from "../../../governance/skills/import/code-host.ts";
import { startGithubRepos } from "../../support/github-repos.ts";
import { cleanup } from "../../support/temp.ts";

describe("a code host that refuses for its rate", () => {
  const atEnd = cleanup();
  const env = systemEnv();
  const start = Date.parse("2026-05-01T12:00:00Z");
  const seconds = (from: number) => String(start / 1_000 + from);
  let github: Awaited<ReturnType<typeof startGithubRepos>>;
  before(async () => {
    github = await startGithubRepos(atEnd);
    github.repo("acme/skills").commit({ "a.md": "x" });
  });

  /** A client with a clock of its own, and what one request ends with. */
  function client() {
    const settings = loadSettings({ ...github.settings, SVC_ALLOW_INSECURE: "true" });
    const secrets = new Secrets(settings, new SecretMask([]));
    const clock = { now: start };
    const outgoing = new Outgoing({ settings, secrets, env });
    const compute = { run: () => assert.fail("no listing is read") };
    const host = new CodeHost({ env: { now: () => clock.now }, outgoing, secrets, compute, settings });
    const spent = { count() {}, settle: async () => {} };
    const caller = { tenantId: "acme", spent, signal: new AbortController().signal };
    const ask = () =>
      host.repository({ owner: "acme", repo: "skills" }, caller).then(
        () => "found",
        (error: unknown) => {
          const { code, details } = SvcError.from(error);
          return [code, details.retryAfterSeconds].filter((part) => part !== undefined).join(" ");
        },
      );
    return { clock, ask };
  }

  type Refusal = NonNullable<typeof github.mood.refuses>;
  const cases: readonly (readonly [what: string, refusal: Refusal, outcome: string])[] = [
    ["429 without a time", { status: 429 }, "upstream_rate_limited 60"],
    ["429 with seconds", { status: 429, headers: { "retry-after": "7" } }, "upstream_rate_limited 7"],
    [
      "429 with a date",
      { status: 429, headers: { "retry-after": new Date(start + 9_000).toUTCString() } },
      "upstream_rate_limited 9",
    ],
    ["429 with words", { status: 429, headers: { "retry-after": "soon" } }, "upstream_rate_limited 60"],
    ["429 with a day", { status: 429, headers: { "retry-after": "86400" } }, "upstream_rate_limited 3600"],
    [
      "403 with a reset",
      { status: 403, headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": seconds(90) } },
      "upstream_rate_limited 90",
    ],
    [
      "403 with a reset that has passed",
      { status: 403, headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": seconds(-90) } },
      "upstream_rate_limited 1",
    ],
    [
      "403 with a reset of words",
      { status: 403, headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "later" } },
      "upstream_rate_limited 60",
    ],
    [
      "403 with both",
      { status: 403, headers: { "retry-after": "5", "x-ratelimit-reset": seconds(90) } },
      "upstream_rate_limited 5",
    ],
    [
      "403 of a secondary limit",
      { status: 403, message: "You have exceeded a secondary rate limit." },
      "upstream_rate_limited 60",
    ],
    ["403 of another kind", { status: 403, headers: { "x-ratelimit-remaining": "50" } }, "upstream_error"],
    ["503", { status: 503, headers: { "retry-after": "5" } }, "upstream_error"],
  ];
  for (const [what, refusal, outcome] of cases)
    test(`LIB-025 ${what} is ${outcome}, and no request is sent before that time`, async () => {
      const { clock, ask } = client();
      github.mood.refuses = refusal;

      const first = await ask();
      github.calm();
      const sent = github.requests.length;
      const pauseMs = Number(outcome.split(" ")[1] ?? 0) * 1_000;
      clock.now = start + Math.max(0, pauseMs - 1);
      const during = await ask();
      const sentDuring = github.requests.length - sent;
      clock.now = start + pauseMs;
      const after = await ask();

      assert.equal(first, outcome);
      assert.equal(during, pauseMs === 0 ? "found" : "upstream_rate_limited 1");
      assert.equal(sentDuring, pauseMs === 0 ? 1 : 0);
      assert.equal(after, "found");
    });
});

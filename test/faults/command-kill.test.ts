// SIGKILL of svc while commands of agents run: no process survives, and each run treats its call as one that may have happened.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { hasBubblewrap } from "../support/bubblewrap.ts";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const shell = { shell_tools: [{ name: "run", commands: ["bash"] }] };

describe("commands and SIGKILL", () => {
  for (const mode of ["bwrap", "trusted"])
    test(`DUR-008 TOOL-023 no command outlives svc, and its outcome is unknown: ${mode}`, async (t) => {
      if (mode === "bwrap" && !hasBubblewrap(t)) return;
      const atEnd = cleanup(t);
      const root = tempDir(atEnd);
      const { server, mock } = await startChatProcess(atEnd, {
        models: ["brief", "lasting"],
        manifests: {
          brief: { ...shell, model: { id: "brief" } },
          lasting: { ...shell, model: { id: "lasting" }, execution: { mode: "durable" } },
        },
        env: { SVC_WORKSPACE_ROOT: root, SVC_SHELL_LOCAL: mode },
      });
      // Both processes have the mark in their command lines. The second one has left the group of the first.
      const mark = `mark-${process.pid}-${mode}`;
      const child = "touch child; while :; do sleep 0.1; done";
      const text = `[ -e go ] && { echo again; exit; }; setsid bash -c '${child}' ${mark} & ${child}`;
      for (const model of ["brief", "lasting"])
        mock.answer(model, inTurn(calls(["run", { argv: ["bash", "-c", text, mark] }]), { text: "Done." }));
      const alive = (): number => Number(spawnSync("pgrep", ["-c", "-f", mark], { encoding: "utf8" }).stdout);
      const folder = (thread: string): string => join(root, ".svc-scopes/default/threads", thread);
      const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json;
      server.post("/chat", turn("brief", "go", { thread_id: "brief" })).catch(() => {});
      const { resume_token } = (await server.post("/chat", turn("lasting", "go", { thread_id: "lasting" }))).json;
      for (const thread of ["brief", "lasting"])
        await eventually(`a command of ${thread}`, async () => existsSync(join(folder(thread), "child")) || undefined);
      const before = alive();

      await server.kill();

      await eventually("every process has ended", async () => alive() === 0 || undefined);
      await server.restart();
      const runWhen = (holds: (run: { status: string }) => boolean) =>
        eventually("the durable run", async () => {
          const { json } = await server.get(`/runs/${resume_token}`);
          return holds(json) ? json : undefined;
        });
      const { waiting_on } = await runWhen(({ status }) => status === "waiting");
      const request = (await server.get(`/approvals/${waiting_on.id}`)).json;
      const closed = await eventually("the end of the transient run", async () => {
        const { phase, transcript } = await snapshot("brief");
        return phase === "idle" || phase === "interrupted" ? transcript : undefined;
      });
      const running = alive();
      writeFileSync(join(folder("lasting"), "go"), "");
      await server.post(`/approvals/${waiting_on.id}/decide`, { decision: "approved" });
      const ended = await runWhen(({ status }) => status !== "waiting" && status !== "running");

      assert.ok(before >= 4, String(before));
      assert.deepEqual(
        [request.rule_id, request.tool_name, request.evidence.effect],
        ["outcome-unknown", "run", "once"],
      );
      assert.equal(running, 0, "nothing is repeated before a person decides");
      const results = closed.filter(({ kind }: { kind: string }) => kind === "tool_result");
      assert.equal(results.length, 1);
      assert.match(results[0].content, /interrupted/);
      assert.deepEqual([ended.status, ended.final.content], ["completed", "Done."]);
      const told = shown(mock.requests.findLast(({ model }) => model === "lasting"));
      assert.match(told.findLast(({ role }) => role === "tool")?.content ?? "", /"exit_code":0,"stdout":"again/);
    });
});

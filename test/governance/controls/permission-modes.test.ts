import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { planningAgent } from "../../../actors/run/spec/planning-agent.ts";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { permissionModes as modes, type PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import { modeAfterPlan, modeOf } from "../../../governance/auth/permission-modes.ts";
import { approvals } from "../../../governance/controls/approvals.ts";
import type { Control, GovernedCall, GovernedRun } from "../../../governance/controls/control.ts";
import { permissionModes } from "../../../governance/controls/permission-modes.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { compileProblems, compileSpec } from "../../manifests/support.ts";
import { call, pipeline } from "./support.ts";

const known = new Map(builtInTools.map((tool) => [tool.name, tool]));
const tools = [...known.keys()];
const alice = { tenant_id: "acme", sub: "alice", scopes: ["chat:write"], scheme: "api_key", issuer: "" };
const compiled = (spec: object): CompiledAgent => compileSpec({ tools, ...spec }, { tools: known });

/** The outcome of a call in a mode: `asks` means a request, which needs a store. */
async function outcome(agent: CompiledAgent, mode: PermissionMode, tool: string, attended = true) {
  const audit: unknown[] = [];
  const run = {
    agent: mode === "plan" ? planningAgent(agent) : agent,
    mode,
    attended,
    threadId: "acme:t",
    callKey: (id: string) => id,
    metrics: { count: (name: string, labels: object) => audit.push([name, labels]) },
    audit: (...row: unknown[]) => audit.push(row),
    failed: () => {},
  } as unknown as GovernedRun;
  const controls = [permissionModes(run), approvals(run)].filter((made): made is Control => made !== null);
  const governed = { ...call, tool, args: {}, principal: alice } as GovernedCall;
  const admission = await pipeline(controls).admit(governed);
  if (admission.kind === "pass") return audit.length > 0 ? "waived" : "runs";
  assert.ok(admission.kind === "deny");
  const { layer, detail } = admission.denial;
  return layer === "approvals" && detail === "unavailable" ? "asks" : layer;
}

describe("permission modes", () => {
  const approvalsOf = (...names: string[]) => [{ id: "gate", tools: names }];

  test("each mode passes, asks for or refuses each kind of tool as documented", async () => {
    const plain = compiled({});
    const gated = compiled({ approvals: approvalsOf("*") });
    const table: Record<PermissionMode, Record<string, [plain: string, gated: string]>> = {
      default: {
        read_file: ["runs", "asks"],
        todo_write: ["runs", "asks"],
        write_file: ["runs", "asks"],
        edit_file: ["runs", "asks"],
        multi_edit: ["runs", "asks"],
      },
      plan: {
        read_file: ["runs", "asks"],
        todo_write: ["permission_mode", "permission_mode"],
        write_file: ["permission_mode", "permission_mode"],
        edit_file: ["permission_mode", "permission_mode"],
        multi_edit: ["permission_mode", "permission_mode"],
        exit_plan_mode: ["asks", "asks"],
      },
      accept_edits: {
        read_file: ["runs", "asks"],
        todo_write: ["runs", "asks"],
        write_file: ["runs", "waived"],
        edit_file: ["runs", "waived"],
        multi_edit: ["runs", "waived"],
      },
      bypass: {
        read_file: ["runs", "waived"],
        todo_write: ["runs", "waived"],
        write_file: ["runs", "waived"],
        edit_file: ["runs", "waived"],
        multi_edit: ["runs", "waived"],
      },
    };

    for (const mode of modes)
      for (const [tool, expected] of Object.entries(table[mode]))
        assert.deepEqual(
          [await outcome(plain, mode, tool), await outcome(gated, mode, tool)],
          expected,
          `${mode} ${tool}`,
        );
  });

  test("the manifest can declare further tools as reading or as editing", async () => {
    const agent = compiled({
      approvals: approvalsOf("*"),
      permissions: { read_only_tools: ["todo_*"], edit_tools: ["calc*"] },
    });

    assert.deepEqual(
      await Promise.all([
        outcome(agent, "plan", "todo_write"),
        outcome(agent, "plan", "write_file"),
        outcome(agent, "accept_edits", "calculator"),
        outcome(agent, "accept_edits", "todo_write"),
      ]),
      ["asks", "permission_mode", "waived", "asks"],
    );
  });

  test("a tool reads by its effect or its risk, as the tool or the manifest declares it", async () => {
    const agent = compiled({
      tool_effects: {
        "*": "once",
        "write*": { risk: "reads" },
        "write_f*": { risk: "writes" },
        edit_file: "read",
        multi_edit: { effect: "read", risk: "speaks" },
        read_file: { effect: "once", risk: "writes" },
      },
    });

    const found = Object.fromEntries(
      await Promise.all(
        ["list_dir", "read_file", "write_file", "edit_file", "multi_edit", "todo_write"].map(async (tool) => [
          tool,
          await outcome(agent, "plan", tool),
        ]),
      ),
    );

    assert.deepEqual(found, {
      list_dir: "runs",
      read_file: "permission_mode",
      write_file: "permission_mode",
      edit_file: "runs",
      multi_edit: "runs",
      todo_write: "permission_mode",
    });
  });

  test("without a person to ask, a plan is refused, and waived approvals still pass", async () => {
    const agent = compiled({ approvals: [{ id: "gate", tools: ["*"], allow_unattended: true }] });
    const strict = compiled({ approvals: approvalsOf("*") });

    assert.deepEqual(
      await Promise.all([
        outcome(agent, "plan", "exit_plan_mode", false),
        outcome(strict, "bypass", "todo_write", false),
        outcome(strict, "default", "todo_write", false),
      ]),
      ["approvals", "waived", "approvals"],
    );
  });

  test("a client's tool reads or edits by the manifest, and cannot leave plan mode", async () => {
    const client_tools = ["look", "patch", "run"].map((name) => ({ name }));
    const agent = compiled({
      client_tools,
      approvals: approvalsOf("*"),
      tool_effects: { look: "read" },
      permissions: { edit_tools: ["patch"] },
    });

    assert.deepEqual(
      await Promise.all([
        outcome(agent, "plan", "look"),
        outcome(agent, "plan", "run"),
        outcome(agent, "accept_edits", "patch"),
        outcome(agent, "accept_edits", "run"),
      ]),
      ["asks", "permission_mode", "waived", "asks"],
    );
    assert.deepEqual(compileProblems({ client_tools: [{ name: "exit_plan_mode" }] }), [
      "conflict spec.client_tools.0.name",
    ]);
  });

  test("no mode waives the approval of a plan", async () => {
    const agent = planningAgent(compiled({ permissions: { edit_tools: ["*"] } }));
    const verdicts = await Promise.all(
      modes.map((mode) => {
        const run = { agent, mode, attended: false } as unknown as GovernedRun;
        const governed = { ...call, tool: "exit_plan_mode", args: {}, principal: alice } as GovernedCall;
        return approvals(run)?.before?.(governed);
      }),
    );

    assert.deepEqual(
      verdicts.map((verdict) => verdict?.verdict),
      ["deny", "deny", "deny", "deny"],
    );
  });

  test("a mode holds if manifest and caller allow it; else the manifest's default does", () => {
    const all = compiled({ permissions: { allowed_modes: [...modes], default_mode: "accept_edits" } });
    const careful = compiled({ permissions: { allowed_modes: ["plan", "default"], default_mode: "plan" } });
    const may = { ...alice, scopes: ["approvals:bypass"] };

    assert.deepEqual(
      [null, ...modes, "newer"].map((kept) => [
        modeOf(all, kept, alice),
        modeOf(all, kept, may),
        modeOf(careful, kept, may),
      ]),
      [
        ["accept_edits", "accept_edits", "plan"],
        ["default", "default", "default"],
        ["plan", "plan", "plan"],
        ["accept_edits", "accept_edits", "plan"],
        ["accept_edits", "bypass", "plan"],
        ["plan", "plan", "plan"],
      ],
    );
  });

  test("a plan leads to mode default, else to the manifest's mode, or nowhere", () => {
    const lead = (permissions: object) => {
      const agent = compiled({ permissions });
      const bound = planningAgent(agent).tools.some(({ name }) => name === "exit_plan_mode");
      return [modeAfterPlan(agent), bound];
    };

    assert.deepEqual(lead({}), ["default", true]);
    assert.deepEqual(lead({ allowed_modes: ["plan", "accept_edits"], default_mode: "accept_edits" }), [
      "accept_edits",
      true,
    ]);
    assert.deepEqual(lead({ allowed_modes: ["plan"], default_mode: "plan" }), [null, false]);
    assert.deepEqual(lead({ allowed_modes: ["default"] }), ["default", false]);
  });

  test("policies select the tool that leaves plan mode by their globs, as any other", () => {
    const policy = (id: string, glob: string) => ({ id, tools: [glob], required_scopes: ["plans"] });
    const agent = compiled({ policies: [policy("all", "*"), policy("exit", "exit_*"), policy("calc", "calculator")] });

    const guarding = planningAgent(agent).policies.filter(({ tools: guarded }) => guarded.has("exit_plan_mode"));

    assert.deepEqual(
      guarding.map(({ id }) => id),
      ["all", "exit"],
    );
    assert.ok(agent.policies.every(({ tools: guarded }) => !guarded.has("exit_plan_mode")));
    assert.equal(planningAgent(agent), planningAgent(agent));
  });
});

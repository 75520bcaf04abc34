import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { checkArguments } from "../../../../actors/tools/arguments.ts";
import { MadePlans } from "../../../../actors/tools/made-plans.ts";
import { builtInTools } from "../../../../actors/tools/registry/built-in.ts";
import type { ToolContext, ToolResult } from "../../../../actors/tools/tool.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { createStore, type Engine } from "../../../../storage/store/store.ts";
import { noVectors } from "../../../support/no-vectors.ts";

/** A temporary root with a workspace of scope deployment, so that a test controls the paths of its files. */
export interface Fixture {
  readonly root: string;
  /** A directory next to the root, outside every workspace. */
  readonly outside: string;
  readonly frames: { frame: string; data: unknown }[];
  readonly context: ToolContext;
  /** Writes a file under the root, with its directories. */
  put(path: string, content: string | Uint8Array): void;
  at(path: string): string;
  /** Calls a tool like a run: arguments as the model's text. */
  call(tool: string, args: unknown, overrides?: Partial<ToolContext>): Promise<ToolResult>;
  /** The text of a call that must succeed. */
  text(tool: string, args: unknown, overrides?: Partial<ToolContext>): Promise<string>;
}

/** For tools that store nothing. */
const nothingKept: Engine = {
  inOrder: true,
  write: async () => [],
  read: async () => [],
  check: async () => {},
  close: () => {},
};

export function openFixture(t: TestContext): Fixture {
  const home = mkdtempSync(join(tmpdir(), "svc-workspace-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const root = join(home, "root");
  const outside = join(home, "outside");
  mkdirSync(root);
  mkdirSync(outside);
  const frames: Fixture["frames"] = [];
  const none = () => Promise.reject(new Error("no skills here"));
  const noSkills: ToolContext["skills"] = {
    catalog: async () => ({ skills: new Map(), missing: [], index: { system: "", message: "", taint: [] } }),
    ...{ body: none, file: none, active: () => new Map(), record: () => {} },
    ...{ activation: () => "", deactivation: () => "", write: none, submitFeedback: none },
  };
  const context: ToolContext = {
    env: systemEnv(),
    tenantId: "default",
    taint: [],
    hops: 0,
    store: createStore(nothingKept).tenant("default"),
    tenantStoredBytes: 0,
    manifest: "agent",
    threadSuffix: "t1",
    principal: { tenant_id: "default", sub: "ann", scopes: [], scheme: "none", issuer: "" },
    isAnonymous: false,
    madePlans: new MadePlans(),
    trigger: null,
    toolCallId: "call_1",
    key: "",
    sessionId: "acme:t1",
    askedOn: "acme:t1",
    workspaceScope: "deployment",
    workspace: { root, deploymentTenants: ["default"], checkout: async () => null },
    signal: new AbortController().signal,
    delegate: async () => ({ text: "", error: "permission_denied" }),
    taskResult: () => Promise.reject(new Error("no tasks here")),
    delegated: async () => ({ text: "", error: "permission_denied" }),
    services: {
      egress: { agent: nothing, internet: nothing, operator: nothing },
      secrets: { resolve: async (text) => text },
      compute: { run: unused },
      textVectors: noVectors(systemEnv(), createStore(nothingKept)),
    },
    memory: {
      rules: {
        ...{ keepsLog: true, store: "pgvector", scope: "manifest", capture: null, recallLimit: 5, consolidate: null },
      },
      ...{ reader: null, principal: "", origin: null, taint: () => [], audit: () => {} },
    },
    artifacts: { read: async () => null },
    images: { list: () => [], read: async () => null },
    skills: noSkills,
    progress: () => {},
    emit: (frame, data) => frames.push({ frame, data }),
  };
  async function call(name: string, args: unknown, overrides: Partial<ToolContext> = {}): Promise<ToolResult> {
    const tool = builtInTools.find((candidate) => candidate.name === name);
    assert.ok(tool, `there is a tool ${name}`);
    const checked = await checkArguments(tool, JSON.stringify(args), { defer: setImmediate });
    const result = checked.ok
      ? await tool.execute(checked.args as never, { ...context, ...overrides })
      : checked.refusal;
    assert.ok("text" in result, "nobody has to be asked");
    assert.ok(
      !JSON.stringify(result).includes(home),
      `no place on the host in ${JSON.stringify(result).slice(0, 500)}`,
    );
    assert.ok(!result.text.includes("/proc/"), "no place on the host");
    return result;
  }
  return {
    root,
    outside,
    frames,
    context,
    put(path, content) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
    },
    at: (path) => join(root, path),
    call,
    async text(name, args, overrides) {
      const result = await call(name, args, overrides);
      assert.equal(result.error, undefined, result.text);
      return result.text;
    },
  };
}

/** Workspace tools do not use these services. */
const unused = () => Promise.reject(new Error("not used by workspace tools"));
const nothing = {
  admits: () => false,
  whole: unused,
  fetch: unused,
  rules: { allowHosts: [], onEvent: () => {} },
};

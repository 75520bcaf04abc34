import { workspaceAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { Published, PublishFacts, RepoAnswer } from "../../../bus/protocol/workspace.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { type PublishRules, publishToolName } from "../../../manifests/sections/github-publish.ts";
import type { ToolSource } from "../source.ts";
import { type Foreseen, type Found, type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";

/** Time for a push and a pull request, and for a look at the files. */
const publishMs = 900_000;
const surveyMs = 120_000;

interface Arguments {
  readonly title: string;
  readonly body?: string;
  readonly branch: string;
  readonly draft?: boolean;
  readonly base_commit?: string;
  readonly tree?: string;
}

/** Returns the source of the tool that spec.github_publish binds. */
export function publishSource(bus: Bus): ToolSource {
  return {
    name: "spec.github_publish",
    offers: [],
    resolve(name, { manifest, tools }: CompiledAgent) {
      const { github_publish: rules } = manifest.spec;
      const spec = tools.find((tool) => tool.name === name);
      if (name !== publishToolName || rules === null || spec === undefined) return undefined;
      return { ...spec, ...new PublishTool(bus, rules).parts };
    },
  };
}

/** publish_commits of one agent. The actor of the thread's workspace does the work: it alone changes the repository. */
class PublishTool {
  readonly #bus: Bus;
  readonly #rules: PublishRules;

  constructor(bus: Bus, rules: PublishRules) {
    this.#bus = bus;
    this.#rules = rules;
  }

  get parts(): Pick<Tool, "needs" | "timeoutMs" | "binds" | "preview" | "execute" | "foresee" | "find"> {
    return {
      needs: "thread",
      timeoutMs: publishMs,
      // A person approves these files, and no later ones.
      binds: async (args: Arguments, context: ToolContext) => {
        const found = await this.#survey(context);
        if (!found.ok) return toolError(found.code, found.text);
        const { base_commit, tree } = found.value;
        return { args: { ...args, base_commit, tree } };
      },
      preview: async (_args: Arguments, context: ToolContext) => {
        const found = await this.#survey(context);
        return found.ok ? found.value.preview : found.text;
      },
      execute: (args: Arguments, context: ToolContext) => this.#publish(args, context, false).then(resultOf),
      foresee: async ({ branch, tree }: Arguments): Promise<Foreseen> => ({
        ...{ file: this.#branchOf(branch), before: null, after: tree ?? null },
      }),
      find: async (args: Arguments, _foreseen: Foreseen, context: ToolContext): Promise<Found> => {
        const found = await this.#publish(args, context, true);
        if (found.ok) return resultOf(found);
        return found.code === "not_found" ? "not_made" : null;
      },
    };
  }

  #branchOf(branch: string): string {
    return this.#rules.branch_prefix + branch;
  }

  #survey({ tenantId, threadSuffix }: ToolContext): Promise<RepoAnswer<PublishFacts>> {
    const { repo, allow_workflows } = this.#rules;
    const address = workspaceAddress(tenantId, threadSuffix as string);
    return this.#bus.ask(address, "repo_survey", { repo, allow_workflows }, { deadlineMs: surveyMs });
  }

  #publish(args: Arguments, context: ToolContext, finds: boolean): Promise<RepoAnswer<Published>> {
    const { tenantId, threadSuffix, key, manifest } = context;
    const { repo, allow_workflows, auth, base } = this.#rules;
    const order = {
      ...{ key, repo, allow_workflows, auth, base, finds, manifest, principal: context.principal },
      ...{ branch: this.#branchOf(args.branch), title: args.title, body: args.body ?? "", draft: args.draft ?? false },
      ...{ base_commit: args.base_commit ?? "", tree: args.tree ?? "" },
    };
    const address = workspaceAddress(tenantId, threadSuffix as string);
    return this.#bus.ask(address, "repo_publish", order, { deadlineMs: publishMs });
  }
}

function resultOf(answer: RepoAnswer<Published>): ToolResult {
  return answer.ok ? { text: JSON.stringify(answer.value) } : toolError(answer.code, answer.text);
}

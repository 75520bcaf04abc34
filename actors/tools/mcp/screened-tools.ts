import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { ComputePool } from "../../../governance/compute/compute-pool.ts";
import { textsOf } from "../../../governance/controls/value-texts.ts";
import type { Metrics } from "../../../governance/metrics.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { Instructions, ListedTool } from "./listed-tool.ts";

// spec.content_screening of the texts with which a server describes its tools: the model reads them with every call.

/** Services for the screening. */
export interface ScreeningDeps {
  readonly compute: ComputePool;
  readonly metrics: Metrics;
}

/** Texts of a server that may be shown to a model. */
interface ScreenedTexts {
  readonly tools: readonly ListedTool[];
  readonly instructions: Instructions | null;
  /** Names the withheld texts, for the model. */
  readonly problems: readonly string[];
}

/** Leaves out tools and instructions whose texts carry instructions to the model, if the agent screens content. */
export async function screenedTexts(
  { name: server }: Pick<McpServer, "name">,
  tools: readonly ListedTool[],
  instructions: Instructions | null,
  agent: CompiledAgent,
  { compute, metrics: all }: ScreeningDeps,
): Promise<ScreenedTexts> {
  const metrics = new AgentMetrics(all, agent);
  const used = (outcome: "used" | "flagged") => metrics.count("svc_mcp_instructions_total", { outcome });
  if (agent.contentScreening === null) {
    if (instructions !== null) used("used");
    return { tools, instructions, problems: [] };
  }
  const { screen } = await import("../../../governance/screening/screen-job.ts");
  // A text that cannot be screened is withheld: the server chooses its length.
  const isClean = (text: string): Promise<boolean> =>
    screen(text, compute).then(
      ({ isFlagged }) => !isFlagged,
      () => false,
    );
  const shown: ListedTool[] = [];
  for (const tool of tools) {
    const { name, description, parameters } = tool;
    if (await isClean(`${name}\n${description}\n${textsOf(parameters)}`)) shown.push(tool);
  }
  const withheld = tools.length - shown.length;
  if (withheld > 0)
    metrics.count("svc_content_screening_total", { tool: `${server}__*`, action: "withheld" }, withheld);
  const problems = withheld === 0 ? [] : [`${withheld} tools of ${server} are withheld by content_screening`];
  if (instructions === null) return { tools: shown, instructions, problems };
  const isUsed = await isClean(instructions.text);
  used(isUsed ? "used" : "flagged");
  if (isUsed) return { tools: shown, instructions, problems };
  return {
    tools: shown,
    instructions: null,
    problems: [...problems, `the instructions of ${server} are withheld by content_screening`],
  };
}

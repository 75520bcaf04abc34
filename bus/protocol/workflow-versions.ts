// The topic on which the actor of a run publishes each new version, for the clients that watch the run.

/** A version of a run. */
export interface WorkflowVersion {
  readonly version: number;
  readonly isFinal: boolean;
  /** JSON of the run. */
  readonly record: string;
}

/** Returns the topic of a run of a workflow. */
export function workflowTopic(tenantId: string, runId: string): string {
  return `workflow/${tenantId}/${runId}`;
}

/** Writes a version as a line of text. */
export function writeVersion({ version, isFinal, record }: WorkflowVersion): string {
  return `${version} ${isFinal ? 1 : 0} ${record}\n`;
}

/** Returns the versions in a text of the topic. */
export function readVersions(text: string): WorkflowVersion[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const first = line.indexOf(" ");
      return {
        version: Number(line.slice(0, first)),
        isFinal: line[first + 1] === "1",
        record: line.slice(first + 3),
      };
    });
}

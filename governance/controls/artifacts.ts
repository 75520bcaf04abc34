import { cutText } from "../../bus/cut-text.ts";
import { SvcError } from "../../bus/errors.ts";
import { soundText } from "../../bus/sound-text.ts";
import { readArtifactName } from "../../manifests/sections/artifacts.ts";
import type { Control, GovernedRun } from "./control.ts";
import { pass, type ResultVerdict } from "./verdicts.ts";

/**
 * Stores long tool results apart from the log: the model sees the beginning of the text and a marker (decision 176). It stands last
 * among the controls of results, so that it stores only what the model may read. A text that cannot be stored is cut.
 */
export function artifacts(run: GovernedRun): Control | null {
  const { agent, metrics } = run;
  const rules = agent.artifacts;
  const store = rules === null ? null : run.storeText;
  if (rules === null || store === null) return null;
  const { threshold_chars, preview_chars } = rules;
  return {
    name: "artifacts",
    async after({ tool }, result): Promise<ResultVerdict> {
      if (tool === readArtifactName || result.text.length <= threshold_chars) return pass;
      const text = soundText(result.text);
      try {
        const artifact = await store(text, { tool, taint: result.taint ?? [] });
        metrics.count("svc_artifacts_stored_total", {});
        const marker = `[artifact ${artifact.artifact_id}: ${text.length} chars; preview above; read_artifact(artifact_id, offset, length)]`;
        const preview = cutText(text, preview_chars);
        const shown = preview === "" ? marker : `${preview}\n${marker}`;
        return { verdict: "replace", rule: "stored", result: { ...result, text: shown, artifact } };
      } catch (error) {
        const why = reasonOf(error);
        metrics.count("svc_control_degraded_total", { control: "artifacts", reason: why.reason });
        if (!why.isExpected) run.failed(error);
        const cut = `${cutText(text, threshold_chars)}\n[cut: it had ${text.length} characters, and ${why.words}]`;
        return { verdict: "replace", rule: "cut", result: { ...result, text: cut } };
      }
    },
  };
}

function reasonOf(error: unknown): { readonly reason: string; readonly words: string; readonly isExpected: boolean } {
  const code = error instanceof SvcError ? error.code : "";
  if (code === "object_store_unavailable")
    return { reason: "no_object_store", words: "there is no store for the rest", isExpected: true };
  if (code === "storage_quota_exceeded")
    return { reason: "quota", words: "the quota of what is stored is used up", isExpected: true };
  return { reason: "failure", words: "the rest could not be stored", isExpected: false };
}

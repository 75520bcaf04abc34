import { definePlugin } from "../plugin.ts";

/** The detectors of guardrails. Loaded unless SVC_PII_DETECTORS is false; its detectors load with the first guarded run. */
export const plugin = definePlugin({
  name: "pii",
  description:
    "Detectors of personal data for spec.guardrails: cards, bank accounts, national numbers, e-mail addresses and phones.",
  detectors: [new URL("./detectors.ts", import.meta.url)],
});

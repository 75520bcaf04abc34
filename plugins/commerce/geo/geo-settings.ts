import { json, unprefixed } from "../../../governance/settings/setting.ts";

/** How GEO monitoring works. */
export interface GeoMonitor {
  readonly max_queries_per_tick: number;
  /** Id of the model that answers questions; empty for the default model. */
  readonly gen_model: string;
  /** Id of the model that names competitors; empty for the default model. */
  readonly extract_model: string;
}

const fallback: GeoMonitor = { max_queries_per_tick: 20, gen_model: "", extract_model: "" };

/** The setting. A malformed field has its default, as the specification says. */
export const geoMonitorSetting = unprefixed(
  json<GeoMonitor>(
    "GEO_MONITOR",
    fallback,
    "Monitoring of what models say about brands: {max_queries_per_tick (0 to 200), gen_model, extract_model}.",
    (document) => {
      const { max_queries_per_tick, gen_model, extract_model } = (document ?? {}) as Partial<Record<string, unknown>>;
      const isCount = Number.isSafeInteger(max_queries_per_tick);
      const count = max_queries_per_tick as number;
      return {
        max_queries_per_tick: isCount && count >= 0 && count <= 200 ? count : fallback.max_queries_per_tick,
        gen_model: typeof gen_model === "string" ? gen_model : "",
        extract_model: typeof extract_model === "string" ? extract_model : "",
      };
    },
  ),
);

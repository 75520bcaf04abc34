import type { CommercePart } from "../core/part.ts";
import { geoMigration } from "./0014_commerce_geo.ts";
import { abandonedMigration } from "./0015_commerce_abandoned_carts.ts";
import {
  abandonedTable,
  cartAbandoned,
  recordAbandoned,
  recoveryOutbox,
  recoverySecretSetting,
  recoveryWebhookSetting,
} from "./abandoned-carts.ts";
import { geoActor, geoObservation } from "./geo-actor.ts";
import { brandNotFound, geoQueriesFull, geoRoutes } from "./geo-routes.ts";
import { geoMonitorSetting } from "./geo-settings.ts";
import { geoQueryTable, observationTable } from "./geo-tables.ts";
import { askAboutBrands } from "./geo-task.ts";

/** What models say about brands, and carts that were left. */
export const geoPart: CommercePart = {
  settings: [geoMonitorSetting, recoveryWebhookSetting, recoverySecretSetting],
  tables: [geoQueryTable, observationTable, abandonedTable],
  migrations: [geoMigration, abandonedMigration],
  routes: geoRoutes,
  scopes: {
    "geo:read": "Read what models say about brands.",
    "geo:write": "Register questions about brands.",
  },
  errorCodes: [brandNotFound, geoQueriesFull],
  auditTypes: [geoObservation, cartAbandoned],
  kinds: [geoActor],
  outbox: recoveryOutbox,
  tasks: [
    { name: "geo_monitoring", run: askAboutBrands },
    { name: "abandoned_carts", run: recordAbandoned },
  ],
  metrics: {
    orchestrator_abandoned_carts_detected_total: {
      type: "counter",
      help: "Carts that were left without a purchase.",
      labels: [],
    },
    orchestrator_geo_mention_total: {
      type: "counter",
      help: "Answers of models to questions about brands, by whether they name the brand.",
      labels: ["manifest_id", "engine", "mentioned"],
    },
    orchestrator_geo_rank: {
      type: "histogram",
      help: "Position of the brand in answers that name it.",
      labels: ["manifest_id", "engine"],
      buckets: [1, 2, 3, 5, 10, 20],
    },
  },
};

import type { CommercePart } from "../core/part.ts";
import { entityCodes } from "../sources/entity-codes.ts";
import { entityTable, jobTable, sourceTable } from "../sources/entity-tables.ts";
import { entitiesMigration } from "./0013_commerce_entities.ts";
import { entityRoutes, sourceAudit } from "./entity-routes.ts";
import { continueJobs } from "./sync.ts";

/** Entities that other systems keep. */
export const entitiesPart: CommercePart = {
  tables: [sourceTable, entityTable, jobTable],
  migrations: [entitiesMigration],
  routes: entityRoutes,
  scopes: {
    "entities:read": "Read where entities are kept, and how pulls went.",
    "entities:write": "Set where entities are kept, and pull copies.",
  },
  errorCodes: entityCodes,
  auditTypes: [sourceAudit],
  tasks: [{ name: "commerce_entity_sync", run: continueJobs }],
};

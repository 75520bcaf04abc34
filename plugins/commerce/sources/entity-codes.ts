import type { PluginErrorCode } from "../../../bus/errors.ts";

// The codes with which entities and their sources refuse.

/** There is no such type of entities. */
export const unknownEntityType: PluginErrorCode = {
  code: "unknown_entity_type",
  status: 404,
  help: "There is no type of entities of this name; GET /entities/types lists them.",
};
/** A write to entities that another system keeps. */
export const sourceNotNative: PluginErrorCode = {
  code: "source_not_native",
  status: 409,
  help: "Another system keeps these entities: change them there, or set their source to native.",
};
/** A pull or push of entities that are not copies. */
export const sourceNotSynced: PluginErrorCode = {
  code: "source_not_synced",
  status: 409,
  help: "These entities are not copies of another system: set their source to synced first.",
};
/** The system with the entities cannot be read. */
export const sourceUnavailable: PluginErrorCode = {
  code: "source_unavailable",
  status: 502,
  retryable: true,
  help: "The system that keeps these entities does not answer as it should; detail says how.",
};
/** A pull failed. */
export const syncFailed: PluginErrorCode = {
  code: "sync_failed",
  status: 502,
  retryable: true,
  help: "The pull of entities failed; detail says why.",
};
/** A push with a record that cannot be read. */
export const pushFailed: PluginErrorCode = {
  code: "push_failed",
  status: 400,
  help: "No record of the push can be applied; detail lists the problems.",
};
/** A connector that cannot be used. */
export const invalidConnector: PluginErrorCode = {
  code: "invalid_connector",
  status: 400,
  help: "The connector is missing, or has a URL or a secret that cannot be used; detail says which.",
};
/** A type that cannot be kept elsewhere. */
export const sourceNotAllowed: PluginErrorCode = {
  code: "federation_not_supported",
  status: 409,
  help: "Entities of this type can be native or synced; no read asks another system for them.",
};

/** All codes. */
export const entityCodes = [
  unknownEntityType,
  sourceNotNative,
  sourceNotSynced,
  sourceUnavailable,
  syncFailed,
  pushFailed,
  invalidConnector,
  sourceNotAllowed,
];

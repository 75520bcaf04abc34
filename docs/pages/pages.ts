import { editorSchema, schemaFile } from "../../manifests/schema/json-schema.ts";
import { auditPage } from "./audit.ts";
import { clientTypes } from "./client-types.ts";
import { errorsPage } from "./errors.ts";
import { eventsPage } from "./events.ts";
import { manifestFieldsPage } from "./manifest-fields.ts";
import { metricsPage } from "./metrics.ts";
import { scopesPage } from "./scopes.ts";
import { settingsPage } from "./settings.ts";
import { toolsPage } from "./tools.ts";

/** A file that is made from the source. `npm run generate` writes it, and a test proves that it is up to date. */
interface GeneratedFile {
  readonly file: URL;
  readonly text: () => string;
}

/** Every file that is generated. */
export const generatedFiles: readonly GeneratedFile[] = [
  { file: page("settings"), text: settingsPage },
  { file: page("manifest-fields"), text: manifestFieldsPage },
  { file: page("tools"), text: toolsPage },
  { file: page("events"), text: eventsPage },
  { file: page("errors"), text: errorsPage },
  { file: page("scopes"), text: scopesPage },
  { file: page("audit"), text: auditPage },
  { file: page("metrics"), text: metricsPage },
  { file: schemaFile, text: editorSchema },
  { file: new URL("../../client/api.d.ts", import.meta.url), text: clientTypes },
];

function page(name: string): URL {
  return new URL(`../${name}.md`, import.meta.url);
}

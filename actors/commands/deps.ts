import type { Processes } from "../../governance/processes/processes.ts";
import type { Store } from "../../storage/store/store.ts";

/** Dependencies of the actor. */
export interface CommandsDeps {
  readonly store: Pick<Store, "tenant">;
  readonly processes: Pick<Processes, "start">;
}

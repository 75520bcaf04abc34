import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { StoredKeyValue } from "../../../storage/tables/key-value.ts";
import type { Settings } from "../../settings/settings.ts";

// The requests to the code host are counted for each tenant and for the deployment, in hours of the clock. Work is refused once a count
// has reached its limit. Work that was admitted may finish: its number of requests is bounded.

const hourMs = 3_600_000;
/** Not a valid id of a tenant, so that no tenant can read the row. */
const noTenant = "~skill-import";

type BudgetSettings = Pick<Settings, "skillImportCallsPerHour" | "skillImportCallsPerHourTotal">;

/** Counts the requests of one piece of work. */
export interface SpentCalls {
  /** Called before each request. */
  count(): void;
  /** Stores the requests that were counted. */
  settle(): Promise<void>;
}

/** The budgets of requests to the code host. */
export class ImportBudget {
  readonly #env: Pick<Env, "now">;
  readonly #store: Store;
  readonly #settings: BudgetSettings;

  constructor(env: Pick<Env, "now">, store: Store, settings: BudgetSettings) {
    this.#env = env;
    this.#store = store;
    this.#settings = settings;
  }

  /** Admits work of a tenant, which counts as one request at once. Refuses with rate_limited. */
  async admit(tenant: TenantStore): Promise<SpentCalls> {
    const hour = Math.floor(this.#env.now() / hourMs);
    const key = `skill_import_calls:${hour}`;
    const own = new StoredKeyValue(tenant);
    const all = new StoredKeyValue(this.#store.tenant(noTenant));
    const { skillImportCallsPerHour: most, skillImportCallsPerHourTotal: mostOfAll } = this.#settings;
    const refuse = () => {
      const retryAfterSeconds = Math.ceil(((hour + 1) * hourMs - this.#env.now()) / 1_000);
      return new SvcError("rate_limited", { retryAfterSeconds });
    };
    if ((await own.increment(key, 1, hourMs)) > most) throw refuse();
    if ((await all.increment(key, 1, hourMs)) > mostOfAll) throw refuse();
    let made = 0;
    return {
      count: () => {
        made++;
      },
      settle: async () => {
        if (made < 2) return;
        await own.increment(key, made - 1, hourMs);
        await all.increment(key, made - 1, hourMs);
      },
    };
  }
}

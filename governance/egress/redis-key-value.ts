import { SvcError } from "../../bus/errors.ts";
import { type KeyValue, ownKeys } from "../../storage/tables/key-value.ts";
import { type Redis, RedisRefusal } from "./redis.ts";

// Scripts run atomically in Redis; separate commands could interleave with those of other clients.
const swap = `local found = redis.call('GET', KEYS[1])
if ARGV[1] == '0' and found then return 0 end
if ARGV[1] == '1' and found ~= ARGV[2] then return 0 end
if ARGV[4] == '' then redis.call('SET', KEYS[1], ARGV[3]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) end
return 1`;
const add = `local isNew = redis.call('EXISTS', KEYS[1]) == 0
local sum = redis.call('INCRBY', KEYS[1], ARGV[1])
if isNew and ARGV[2] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return sum`;

/** The key-value data of one tenant in Redis. */
export class RedisKeyValue implements KeyValue {
  readonly #redis: Redis;
  readonly #tenant: string;

  constructor(redis: Redis, tenantId: string) {
    this.#redis = redis;
    this.#tenant = tenantId;
  }

  async get(key: string): Promise<string | undefined> {
    return ((await this.#redis.command("GET", this.#value(key))) as string | null) ?? undefined;
  }

  async set(key: string, value: string, ttlMs: number | null): Promise<void> {
    const life = ttlMs === null ? [] : ["PX", ttlMs];
    await this.#redis.command("SET", this.#value(key), value, ...life);
  }

  async compareAndSet(key: string, from: string | undefined, value: string, ttlMs: number | null): Promise<boolean> {
    const has = from === undefined ? ["0", ""] : ["1", from];
    return (await this.#redis.command("EVAL", swap, 1, this.#value(key), ...has, value, ttlMs ?? "")) === 1;
  }

  async increment(key: string, by: number, ttlMs: number | null): Promise<number> {
    try {
      return (await this.#redis.command("EVAL", add, 1, this.#value(key), by, ttlMs ?? "")) as number;
    } catch (error) {
      if (error instanceof RedisRefusal && error.message.includes("not an integer"))
        throw new SvcError("conflict", { subject: key });
      throw error;
    }
  }

  async push(key: string, text: string): Promise<number> {
    return (await this.#redis.command("LPUSH", this.#list(key), text)) as number;
  }

  async pop(key: string): Promise<string | undefined> {
    return ((await this.#redis.command("RPOP", this.#list(key))) as string | null) ?? undefined;
  }

  #value(key: string): string {
    return `${ownKeys}value:${this.#tenant}:${key}`;
  }

  #list(key: string): string {
    return `${ownKeys}list:${this.#tenant}:${key}`;
  }
}

import { nodeAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { News } from "../../bus/protocol/news.ts";

/** Publishes news that this HTTP thread reports. Threads without actors have no topics, so an actor node publishes them. */
export function reportNews(bus: Pick<Bus, "actorNodes" | "tell">, tenant_id: string, news: News): void {
  const [node] = bus.actorNodes;
  if (node !== undefined) bus.tell(nodeAddress(node), "news", { tenant_id, news });
}

// The package has types for its index alone.
declare module "prom-client/lib/cluster.js" {
  import { AggregatorRegistry } from "prom-client";

  export default AggregatorRegistry;
}

declare module "http_ece" {
  import type { ECDH } from "node:crypto";

  interface Parameters {
    readonly version: "aes128gcm";
    readonly privateKey: ECDH;
    readonly authSecret: string;
    readonly dh?: string;
    readonly salt?: string;
  }
  const ece: {
    decrypt(message: Buffer, parameters: Parameters): Buffer;
    encrypt(text: Buffer, parameters: Parameters): Buffer;
  };
  export default ece;
}

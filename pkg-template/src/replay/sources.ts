/** Where session logs and their payloads come from, and how far references in them are followed. */

/** Reads external payloads at once. A promise is refused with `UNRESOLVED_REFERENCE`; see {@link PayloadSource}. */
export interface SyncPayloadSource {
  /**
   * The bytes at a path, `undefined` where there is nothing.
   * @param relativePath as the reference gives it
   * @param maxBytes what is left of the budget; more need not be read
   */
  readBytes(relativePath: string, maxBytes: number): Uint8Array | undefined;
}

/** Reads external payloads, at once or later. */
export interface PayloadSource {
  /** As in {@link SyncPayloadSource}. */
  readBytes(relativePath: string, maxBytes: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
}

/** How far references are followed. */
export interface PayloadLimits {
  /** How many references may stand above one another; 0 forbids all, 1 forbids nesting. Default 32. */
  maxExternalPayloadDepth?: number | undefined;
  /** Bytes of all payloads of one load together. Default 64 MiB. */
  maxExternalPayloadTotalBytes?: number | undefined;
}

/** Options of a decoding that does not wait. */
export interface DecodeOptions extends PayloadLimits {
  externalPayloadSource?: SyncPayloadSource | undefined;
}

/** Where a log and its payloads come from. */
export interface SessionLogSource {
  /** The whole text; `Uint8Array` where the host has bytes. */
  readText(): string | Uint8Array | Promise<string | Uint8Array>;
  externalPayloadSource?: PayloadSource | undefined;
}

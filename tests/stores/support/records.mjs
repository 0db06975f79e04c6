// Records and batches of the tests of stores.

export const summary = {
  status: 'open',
  members: ['a'],
  createdAt: '2027-01-01T00:00:00.000Z',
  updatedAt: '2027-01-01T00:00:00.000Z',
};

export const record = (conversationId, extra = {}) => ({
  conversationId,
  kind: 'roundtable',
  schemaVersion: 1,
  entries: ['{"one":1}'],
  summary,
  ...extra,
});

/** A batch for `c`. */
export const batch = (expectedRevision, extra = {}) => ({
  conversationId: 'c',
  expectedRevision,
  operationId: `x${expectedRevision}`,
  entries: [`entry ${expectedRevision}`],
  summary,
  ...extra,
});

/** Waits until something holds, for at most ten seconds. */
export async function until(holds) {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`does not hold: ${holds}`);
}

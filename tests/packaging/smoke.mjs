// The smallest program that proves the package works where it runs: every host and bundler runs this one.

/** @returns {Promise<string>} 'ok' and the version; throws otherwise */
export async function smoke(roundtable) {
  await roundtable.init();
  return `ok ${roundtable.version()}`;
}

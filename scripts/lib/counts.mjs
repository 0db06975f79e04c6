// Reads what test runners print: cargo test (and wasm-bindgen-test), and Node's TAP.

/** @returns {{passed: number, failed: number, names: string[]}} totals, and the names of tests that passed */
export function countTests(text) {
  let passed = 0;
  let failed = 0;
  const names = [];
  for (const line of text.split('\n')) {
    const rust = /^test result: \S+ (\d+) passed; (\d+) failed/.exec(line);
    if (rust) {
      passed += Number(rust[1]);
      failed += Number(rust[2]);
    }
    const tap = /^# (pass|fail|cancelled) (\d+)$/.exec(line);
    if (tap) {
      if (tap[1] === 'pass') passed += Number(tap[2]);
      else failed += Number(tap[2]);
    }
    const rustTest = /^test (\S+) \.\.\. ok/.exec(line);
    if (rustTest) names.push(rustTest[1]);
    const tapTest = /^\s*ok \d+ - (.*?)(?: # (?:SKIP|TODO).*)?$/.exec(line);
    if (tapTest && !/ # (SKIP|TODO)/.test(line)) names.push(tapTest[1]);
  }
  return { passed, failed, names };
}

export function sumUp(results) {
  return results.reduce((sum, r) => ({ passed: sum.passed + r.passed, failed: sum.failed + r.failed }), {
    passed: 0,
    failed: 0,
  });
}

/**
 * The rules a test's name begins with: `c22_c23_text` in Rust, `C22, C23: text` in JavaScript.
 * @returns {string[]} such as ['C22', 'C23']
 */
export function rulesOf(name) {
  const own = name.split('::').at(-1);
  const head = /^(?:[A-Za-z]{1,2}\d+(?:[a-z]?)(?:[_,: ]+(?:and )?|$))+/.exec(own)?.[0] ?? '';
  return [...head.matchAll(/([A-Za-z]{1,2})0*(\d+)/g)].map((m) => m[1].toUpperCase() + m[2]);
}

/** Per area (the letters of a rule): how many rules have a test, and how many tests name one. */
export function tallyRules(names) {
  const areas = new Map();
  // The same test in several hosts is one test.
  for (const name of new Set(names)) {
    const rules = rulesOf(name);
    for (const area of new Set(rules.map((r) => r.replace(/\d+/, '')))) {
      const entry = areas.get(area) ?? { area, ruleSet: new Set(), tests: 0 };
      areas.set(area, entry);
      entry.tests += 1;
      for (const rule of rules.filter((r) => r.replace(/\d+/, '') === area)) entry.ruleSet.add(rule);
    }
  }
  return [...areas.values()]
    .map((a) => ({ area: a.area, rules: a.ruleSet.size, tests: a.tests }))
    .sort((a, b) => a.area.localeCompare(b.area));
}

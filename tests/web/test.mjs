export const results = { passed: 0, failed: 0 };

export function test(name, body) {
  try {
    body();
    results.passed++;
  } catch (e) {
    results.failed++;
    console.log(`FAIL ${name}: ${e.message}`);
  }
}

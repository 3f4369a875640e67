/* Libraries that the server has (libs.js says which), loaded when they are first needed. */
import { FOUND } from './libs.js';

const begun = new Map();

export const has = (...names) => names.every((n) => FOUND.includes(n));

function element(name) {
  if (name.endsWith('.css')) {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = 'web/' + name;
    return link;
  }
  const script = document.createElement('script');
  script.src = 'web/' + name;
  return script;
}

/* Resolves when the library is loaded; rejects if it cannot be loaded. */
export function load(name) {
  if (!has(name)) return Promise.reject(new Error(`this server has no ${name}`));
  if (!begun.has(name)) {
    begun.set(name, new Promise((resolve, reject) => {
      const e = element(name);
      e.onload = resolve;
      e.onerror = () => {
        begun.delete(name);
        e.remove();
        reject(new Error(`${name} cannot be loaded`));
      };
      document.head.append(e);
    }));
  }
  return begun.get(name);
}

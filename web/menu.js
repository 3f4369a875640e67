/* A small menu below a button: arrow keys move, Escape closes, focus goes back to the button. */
import { button, make } from './dom.js';

let open = null;

function closeMenu() {
  if (!open) return;
  const { box, anchor, outside } = open;
  open = null;
  document.removeEventListener('pointerdown', outside, true);
  box.remove();
  anchor.setAttribute('aria-expanded', 'false');
}

function place(box, anchor) {
  const a = anchor.getBoundingClientRect(), b = box.getBoundingClientRect();
  const below = a.bottom + 4 + b.height <= innerHeight;
  box.style.top = `${Math.max(4, below ? a.bottom + 4 : a.top - 4 - b.height)}px`;
  box.style.left = `${Math.max(4, Math.min(a.right - b.width, innerWidth - b.width - 4))}px`;
}

function keys(e, box, anchor) {
  const items = [...box.children];
  const at = items.indexOf(document.activeElement);
  const go = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[e.key];
  if (go !== undefined) {
    e.preventDefault();
    items[go % items.length].focus();
  } else if (e.key === 'Escape' || e.key === 'Tab') {
    e.stopPropagation();
    if (e.key === 'Escape') e.preventDefault();
    closeMenu();
    anchor.focus();
  }
}

/* items: [label, act] */
export function openMenu(anchor, items) {
  const again = open?.anchor === anchor;
  closeMenu();
  if (again) return;
  const box = make('div', 'menu');
  box.setAttribute('role', 'menu');
  for (const [label, act] of items) {
    const b = button(label, '', () => {
      closeMenu();
      anchor.focus();
      act();
    });
    b.setAttribute('role', 'menuitem');
    b.tabIndex = -1;
    box.append(b);
  }
  box.addEventListener('keydown', (e) => keys(e, box, anchor));
  anchor.closest('main, aside').append(box); /* within a landmark */
  place(box, anchor);
  anchor.setAttribute('aria-expanded', 'true');
  const outside = (e) => { if (!box.contains(e.target) && !anchor.contains(e.target)) closeMenu(); };
  document.addEventListener('pointerdown', outside, true);
  open = { box, anchor, outside };
  box.firstChild.focus();
}

export function menuButton(b) {
  b.setAttribute('aria-haspopup', 'menu');
  b.setAttribute('aria-expanded', 'false');
  return b;
}

import assert from 'node:assert/strict';
import { add, before, newChat, newMessage, path, remove, restore, select, siblings, titleOf, validChat } from '../../web/tree.js';
import { test } from './test.mjs';

function sample() {
  const chat = newChat();
  const user = add(chat, null, newMessage('user', 'first'));
  const one = add(chat, user.id, newMessage('assistant', 'one'));
  const two = add(chat, user.id, newMessage('assistant', 'two'));
  const next = add(chat, two.id, newMessage('user', 'second'));
  return { chat, user, one, two, next };
}
const texts = (chat) => path(chat).map((m) => m.content);

test('path follows the branch that is shown', () => {
  const { chat, user, one, two } = sample();
  assert.deepEqual(texts(chat), ['first', 'two', 'second']);
  assert.deepEqual(siblings(chat, two), [one, two]);
  assert.deepEqual(before(chat, two), [user]);
  assert.deepEqual(before(chat, user), []);
});

test('select goes down to the newest message of a branch', () => {
  const { chat, one, two } = sample();
  select(chat, one);
  assert.deepEqual(texts(chat), ['first', 'one']);
  select(chat, two);
  assert.deepEqual(texts(chat), ['first', 'two', 'second']);
});

test('remove takes what follows, shows a sibling, and can be undone', () => {
  const { chat, two } = sample();
  const old = remove(chat, two);
  assert.deepEqual(texts(chat), ['first', 'one']);
  assert.equal(chat.messages.length, 2);
  restore(chat, old);
  assert.deepEqual(texts(chat), ['first', 'two', 'second']);
});

test('remove of the only message leaves an empty conversation', () => {
  const chat = newChat();
  const m = add(chat, null, newMessage('user', 'x'));
  remove(chat, m);
  assert.deepEqual(path(chat), []);
});

test('title: the first line, cut; a given name wins; a file stands for an empty text', () => {
  const chat = newChat();
  assert.equal(titleOf(chat), '');
  const m = add(chat, null, newMessage('user', `${'a'.repeat(80)}\nb`));
  assert.equal(titleOf(chat).length, 60);
  m.content = '';
  m.files = [{ kind: 'text', name: 'notes.txt', text: '' }];
  assert.equal(titleOf(chat), 'notes.txt');
  Object.assign(chat, { named: true, title: 'mine' });
  assert.equal(titleOf(chat), 'mine');
});

test('validChat keeps a conversation as it is', () => {
  const { chat } = sample();
  const again = validChat(JSON.parse(JSON.stringify(chat)));
  assert.deepEqual(texts(again), texts(chat));
  assert.equal(again.messages.length, 4);
});

test('validChat reads the linear lists of earlier versions', () => {
  const c = validChat({ id: 'x', title: 't', changed: 5, messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b', error: 'broke' }] });
  assert.deepEqual(texts(c), ['a', 'b']);
  assert.deepEqual(c.messages[1].error, { text: 'broke', kind: '' });
});

test('validChat marks a response that was streaming as interrupted', () => {
  const c = validChat({ id: 'x', messages: [{ id: 'm', parent: null, role: 'assistant', content: 'half', streaming: true }] });
  assert.equal(c.messages[0].finish, 'interrupted');
  assert.equal(c.messages[0].streaming, false);
});

test('validChat survives anything', () => {
  for (const bad of [null, 1, 'x', [], {}, { id: 1, messages: [] }, { id: 'x', messages: 'y' }]) assert.equal(validChat(bad), null);
  const c = validChat({
    id: 'x', leaf: 'nowhere', messages: [
      null, 7, { role: 'system', content: 'x' },
      { id: 'a', parent: 'b', role: 'user', content: null, marks: [[3, 1], 'x', [0, 2]], calls: [null, { name: 1 }], files: [{ kind: 'image', url: 'javascript:x' }, { kind: 'text', name: 'n' }, 3] },
      { id: 'b', parent: 'a', role: 'assistant', content: { x: 1 } },
      { id: 'a', parent: 'b', role: 'user', content: 'twice' },
    ],
  });
  assert.equal(c.messages.length, 2);
  assert.equal(c.messages[0].parent, null);
  assert.deepEqual(c.messages[0].marks, [[0, 2]]);
  assert.deepEqual(c.messages[0].calls, [{ id: '', name: '1', args: '' }]);
  assert.deepEqual(c.messages[0].files, [{ kind: 'text', name: 'n', text: '' }]);
  assert.equal(path(c).length, 2);
});

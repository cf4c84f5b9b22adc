// Bloomgate through ioredis, which has no BF or CF commands of its own and sends them with call(), RESP2 or RESP3.
'use strict';

const { Redis } = require('ioredis');
const { check, holds, refused, run } = require('./asserting.js');

/** A client; by default it waits for INFO to say that the server is not loading, as ioredis does. */
function connect(scene, options = {}) {
  const client = new Redis({
    host: '127.0.0.1',
    port: scene.port,
    protocol: scene.protocol,
    // Replies as they came; by itself it writes those of RESP3 as those of RESP2.
    replyMapping: scene.protocol === 3 ? 'resp3' : 'legacy',
    retryStrategy: null,
    maxRetriesPerRequest: 0,
    ...options,
  });
  // Errors of the connection itself reject the command that waits, which is what is looked at.
  client.on('error', () => {});
  return client;
}

async function emptied(scene) {
  const client = connect(scene);
  check('FLUSHALL', await client.flushall(), 'OK');
  return client;
}

/** Yes and no of a protocol, as ioredis hands them on. */
const answers = (scene) => (scene.protocol === 2 ? [1, 0] : [true, false]);

const groups = {
  async connection(scene) {
    const client = connect(scene, { connectionName: 'caller' });
    check('PING', await client.ping(), 'PONG');
    check('ECHO hello', await client.echo('hello'), 'hello');
    check('CLIENT GETNAME', await client.client('GETNAME'), 'caller');
    const line = String(await client.client('INFO'));
    holds('CLIENT INFO, lib-name', line.includes('lib-name=ioredis'), line);
    // It would fall back to RESP2 without a word.
    holds('CLIENT INFO, resp', line.includes(`resp=${scene.protocol}`), line);
    await refused('SELECT 1', 'DB index is out of range', () => client.select(1));
    await refused('SET a b', "unknown command 'set'", () => client.set('a', 'b'));
    check('PING after that', await client.ping(), 'PONG');
    const legacy = connect(scene, { replyMapping: 'legacy' });
    check('BF.EXISTS nothing x', await legacy.call('BF.EXISTS', 'nothing', 'x'), 0);
    check('QUIT', [await client.quit(), await legacy.quit()], ['OK', 'OK']);
  },

  async password(scene) {
    const right = connect(scene, { port: scene.guardedPort, password: scene.password });
    check('PING after AUTH', await right.ping(), 'PONG');
    right.disconnect();
    // It sends no command before its ready check went through, which it does not without a password.
    const without = connect(scene, { port: scene.guardedPort, enableReadyCheck: false, protocol: 2, replyMapping: 'legacy' });
    await refused('BF.ADD without AUTH', 'NOAUTH', () => without.call('BF.ADD', 'f', 'x'));
    without.disconnect();
  },

  async bloom(scene) {
    const client = await emptied(scene);
    const [yes, no] = answers(scene);
    check('BF.RESERVE f 0.01 1000', await client.call('BF.RESERVE', 'f', 0.01, 1000), 'OK');
    check('BF.ADD f a', await client.call('BF.ADD', 'f', 'a'), yes);
    check('BF.ADD f a, again', await client.call('BF.ADD', 'f', 'a'), no);
    check('BF.MADD f a b c', await client.call('BF.MADD', 'f', 'a', 'b', 'c'), [no, yes, yes]);
    check('BF.EXISTS f z', await client.call('BF.EXISTS', 'f', 'z'), no);
    check('BF.MEXISTS f a z', await client.call('BF.MEXISTS', 'f', 'a', 'z'), [yes, no]);
    check('BF.CARD f', await client.call('BF.CARD', 'f'), 3);
    // Buffers: bytes that are no text.
    const bytes = Buffer.from([0, 255, 13, 10, 254]);
    check('BF.ADD of bytes', await client.callBuffer('BF.ADD', 'f', bytes), yes);
    check('BF.EXISTS of bytes', await client.call('BF.EXISTS', 'f', bytes), yes);
    await refused('BF.RESERVE f', 'ERR item exists', () => client.call('BF.RESERVE', 'f', 0.01, 1000));
    client.disconnect();
  },

  async cuckoo(scene) {
    const client = await emptied(scene);
    const [yes, no] = answers(scene);
    check('CF.RESERVE f 1000', await client.call('CF.RESERVE', 'f', 1000), 'OK');
    check('CF.ADD f a', await client.call('CF.ADD', 'f', 'a'), yes);
    check('CF.ADDNX f a', await client.call('CF.ADDNX', 'f', 'a'), no);
    check('CF.INSERTNX f a b', await client.call('CF.INSERTNX', 'f', 'ITEMS', 'a', 'b'), [0, 1]);
    check('CF.COUNT f a', await client.call('CF.COUNT', 'f', 'a'), 1);
    check('CF.DEL f a', await client.call('CF.DEL', 'f', 'a'), yes);
    check('CF.EXISTS f a', await client.call('CF.EXISTS', 'f', 'a'), no);
    client.disconnect();
  },

  async pipelining(scene) {
    const client = await emptied(scene);
    const [yes] = answers(scene);
    await client.call('BF.RESERVE', 'f', 0.001, 10000);
    const adding = client.pipeline();
    const asking = client.pipeline();
    for (let n = 0; n < 5000; n += 1) {
      adding.call('BF.ADD', 'f', `item${n}`);
      asking.call('BF.EXISTS', 'f', `item${n}`);
    }
    const added = await adding.exec();
    check('5000 BF.ADD, errors', added.filter(([error]) => error !== null).length, 0);
    check('5000 BF.EXISTS', (await asking.exec()).filter(([, answer]) => answer === yes).length, 5000);
    const around = await client.pipeline().call('BF.ADD', 'f', 'in').call('BF.ADD', 'f').call('BF.EXISTS', 'f', 'in').exec();
    check('around an error', [around[0][1], around[2][1]], [yes, yes]);
    check('the error', around[1][0].message, "ERR wrong number of arguments for 'bf.add' command");
    client.disconnect();
    // What is asked for in one turn of the loop goes as one pipeline.
    const auto = connect(scene, { enableAutoPipelining: true });
    const found = await Promise.all(Array.from({ length: 500 }, (_, n) => auto.call('BF.EXISTS', 'f', `item${n}`)));
    check('500 BF.EXISTS by themselves', found.filter((one) => one === yes).length, 500);
    auto.disconnect();
  },

  async transactions(scene) {
    const client = await emptied(scene);
    const [yes, no] = answers(scene);
    const done = await client.multi().call('BF.ADD', 'f', 'a').call('BF.MADD', 'f', 'a', 'b').exists('f').exec();
    check('MULTI … EXEC', done, [[null, yes], [null, [no, yes]], [null, 1]]);
    const aborted = client.multi().call('BF.ADD', 'f', 'c').call('BF.ADD', 'f').exec();
    await refused('EXEC after a bad command', 'EXECABORT', () => aborted);
    check('BF.EXISTS f c', await client.call('BF.EXISTS', 'f', 'c'), no);
    const other = connect(scene);
    await client.watch('f');
    check('EXEC, nobody wrote', await client.multi().call('BF.ADD', 'f', 'd').exec(), [[null, yes]]);
    await client.watch('f');
    await other.call('BF.ADD', 'f', 'e');
    check('EXEC, somebody wrote', await client.multi().call('BF.ADD', 'f', 'g').exec(), null);
    check('BF.EXISTS f g', await client.call('BF.EXISTS', 'f', 'g'), no);
    other.disconnect();
    client.disconnect();
  },

  async names(scene) {
    const client = await emptied(scene);
    const pipeline = client.pipeline();
    for (let n = 0; n < 100; n += 1) pipeline.call('BF.ADD', `user:${n}`, 'x');
    await pipeline.exec();
    check('DBSIZE', await client.dbsize(), 100);
    const scanned = new Set();
    for await (const some of client.scanStream({ match: 'user:*', count: 7 })) some.forEach((name) => scanned.add(name));
    check('SCAN', scanned.size, 100);
    check('TYPE user:0', await client.type('user:0'), 'MBbloom--');
    check('DEL user:0 nothing', await client.del('user:0', 'nothing'), 1);
    const info = await client.info();
    holds('INFO', /^redis_version:\d/m.test(info) && /^loading:0/m.test(info), info);
    check('FLUSHDB', await client.flushdb(), 'OK');
    client.disconnect();
  },
};

run('ioredis', groups);

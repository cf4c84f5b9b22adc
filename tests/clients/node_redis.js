// Bloomgate through node-redis and @redis/bloom, RESP2 or RESP3, each answer compared.
'use strict';

const { createClient, createClientPool, RESP_TYPES, WatchError } = require('redis');
const bloomCommands = require('@redis/bloom').default;
const { check, holds, refused, run } = require('./asserting.js');

/** A client of the server that is open to all, with the commands of @redis/bloom. */
async function connect(scene, options = {}) {
  const client = createClient({
    RESP: scene.protocol,
    modules: bloomCommands,
    socket: { host: '127.0.0.1', port: scene.port, reconnectStrategy: false },
    ...options,
  });
  // Errors of the connection itself reject the command that waits, which is what is looked at.
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function emptied(scene) {
  const client = await connect(scene);
  check('FLUSHALL', await client.flushAll(), 'OK');
  return client;
}

const groups = {
  async connection(scene) {
    const client = await connect(scene, { name: 'caller' });
    check('PING', await client.ping(), 'PONG');
    check('ECHO hello', await client.echo('hello'), 'hello');
    check('CLIENT GETNAME', await client.clientGetName(), 'caller');
    const info = await client.clientInfo();
    check('CLIENT INFO, name', info.name, 'caller');
    check('CLIENT INFO, id', info.id, await client.clientId());
    // Sent on connect by CLIENT SETINFO.
    const line = String(await client.sendCommand(['CLIENT', 'INFO']));
    holds('CLIENT INFO, lib-name', line.includes('lib-name=node-redis'), line);
    holds('CLIENT INFO, resp', line.includes(`resp=${scene.protocol}`), line);
    check('CLIENT LIST, me', (await client.clientList()).filter((other) => other.id === info.id).length, 1);
    await refused('SELECT 1', 'DB index is out of range', () => client.select(1));
    await refused('SET a b', "unknown command 'SET'", () => client.set('a', 'b'));
    check('PING after that', await client.ping(), 'PONG');
    await client.close();
  },

  async password(scene) {
    const socket = { host: '127.0.0.1', port: scene.guardedPort, reconnectStrategy: false };
    const right = await connect(scene, { socket, password: scene.password });
    check('FLUSHALL', await right.flushAll(), 'OK');
    check('BF.ADD f x', await right.bf.add('f', 'x'), true);
    await right.close();
    await refused('AUTH with a wrong password', 'WRONGPASS', () => connect(scene, { socket, password: 'wrong' }));
    const words = scene.protocol === 2 ? 'NOAUTH' : 'HELLO must be called with the client already authenticated';
    await refused('BF.ADD without AUTH', words, async () => (await connect(scene, { socket })).bf.add('f', 'x'));
  },

  async bloom(scene) {
    const client = await emptied(scene);
    check('BF.RESERVE f 0.01 1000', await client.bf.reserve('f', 0.01, 1000), 'OK');
    check('BF.ADD f a', await client.bf.add('f', 'a'), true);
    check('BF.ADD f a, again', await client.bf.add('f', 'a'), false);
    check('BF.MADD f a b c', await client.bf.mAdd('f', ['a', 'b', 'c']), [false, true, true]);
    check('BF.EXISTS f a', await client.bf.exists('f', 'a'), true);
    check('BF.EXISTS f z', await client.bf.exists('f', 'z'), false);
    check('BF.MEXISTS f a z', await client.bf.mExists('f', ['a', 'z']), [true, false]);
    check('BF.CARD f', await client.bf.card('f'), 3);
    const options = { CAPACITY: 50, ERROR: 0.001, EXPANSION: 4 };
    check('BF.INSERT g', await client.bf.insert('g', ['a', 'b', 'a'], options), [true, true, false]);
    check('BF.INSERT g NOCREATE', await client.bf.insert('g', 'c', { NOCREATE: true }), [true]);
    const { Size: size, ...info } = await client.bf.info('g');
    holds('BF.INFO g, Size', Number.isInteger(size) && size > 0, size);
    check('BF.INFO g', info, {
      Capacity: 50,
      'Number of filters': 1,
      'Number of items inserted': 3,
      'Expansion rate': 4,
    });
    check('BF.RESERVE n NONSCALING', await client.bf.reserve('n', 0.01, 10, { NONSCALING: true }), 'OK');
    check('BF.INFO n, Expansion rate', (await client.bf.info('n'))['Expansion rate'], null);
    check('BF.EXISTS nothing a', await client.bf.exists('nothing', 'a'), false);
    await client.close();
  },

  async cuckoo(scene) {
    const client = await emptied(scene);
    const reserved = await client.cf.reserve('f', 1000, { BUCKETSIZE: 2, MAXITERATIONS: 20, EXPANSION: 1 });
    check('CF.RESERVE f 1000', reserved, 'OK');
    check('CF.ADD f a', await client.cf.add('f', 'a'), true);
    check('CF.ADD f a, a second copy', await client.cf.add('f', 'a'), true);
    check('CF.ADDNX f a', await client.cf.addNX('f', 'a'), false);
    check('CF.ADDNX f b', await client.cf.addNX('f', 'b'), true);
    check('CF.COUNT f a', await client.cf.count('f', 'a'), 2);
    check('CF.INSERT f c d', await client.cf.insert('f', ['c', 'd']), [true, true]);
    // Integers in both protocols, which @redis/bloom hands on as they come.
    const fresh = await client.cf.insertNX('f', ['d', 'e']);
    check('CF.INSERTNX f d e', fresh.map(Number), [0, 1]);
    check('CF.EXISTS f e', await client.cf.exists('f', 'e'), true);
    check('CF.MEXISTS f a z', await client.cf.mExists('f', ['a', 'z']), [true, false]);
    check('CF.DEL f a', await client.cf.del('f', 'a'), true);
    check('CF.DEL f a, the last', await client.cf.del('f', 'a'), true);
    check('CF.DEL f a, none left', await client.cf.del('f', 'a'), false);
    check('CF.EXISTS f a', await client.cf.exists('f', 'a'), false);
    const info = await client.cf.info('f');
    check('CF.INFO f', [info['Number of items inserted'], info['Number of items deleted']], [4, 2]);
    check('CF.INFO f, options', [info['Bucket size'], info['Expansion rate'], info['Max iterations']], [2, 1, 20]);
    await client.close();
  },

  async pipelining(scene) {
    // node-redis sends what is asked for in one turn of its loop as one pipeline.
    const client = await emptied(scene);
    const items = Array.from({ length: 5000 }, (_, n) => `item${n}`);
    await client.bf.reserve('f', 0.001, 10000);
    await Promise.all(items.map((item) => client.bf.add('f', item)));
    const found = await Promise.all(items.map((item) => client.bf.exists('f', item)));
    check('5000 BF.EXISTS', found.filter((one) => one).length, 5000);
    const [before, error, after] = await Promise.allSettled([
      client.bf.add('f', 'in'),
      client.sendCommand(['BF.ADD', 'f']),
      client.bf.exists('f', 'in'),
    ]);
    check('around an error', [before.value, after.value], [true, true]);
    check('the error', error.reason.message, "ERR wrong number of arguments for 'bf.add' command");
    await client.close();
  },

  async transactions(scene) {
    const client = await emptied(scene);
    const answers = await client
      .multi()
      .bf.reserve('f', 0.01, 1000)
      .bf.add('f', 'a')
      .bf.mAdd('f', ['a', 'b'])
      .bf.exists('f', 'b')
      .exists('f')
      .ping()
      .exec();
    check('MULTI … EXEC', answers, ['OK', true, [false, true], true, 1, 'PONG']);
    const mixed = client.multi().bf.add('f', 'c').bf.reserve('f', 0.01, 1000).bf.add('f', 'd').exec();
    await refused('EXEC with an error within', '1 commands failed', () => mixed);
    check('BF.MEXISTS f c d', await client.bf.mExists('f', ['c', 'd']), [true, true]);
    await refused('EXEC after a bad command', 'wrong number of arguments', () =>
      client.multi().bf.add('f', 'e').addCommand(['BF.ADD', 'f']).exec(),
    );
    check('BF.EXISTS f e', await client.bf.exists('f', 'e'), false);
    // WATCH.
    const other = await connect(scene);
    await client.watch('f');
    check('EXEC, nobody wrote', await client.multi().bf.add('f', 'g').exec(), [true]);
    await client.watch('f');
    await other.bf.add('f', 'h');
    const late = await refused('EXEC, somebody wrote', 'watched', () => client.multi().bf.add('f', 'i').exec());
    holds('EXEC, somebody wrote', late instanceof WatchError, late);
    check('BF.EXISTS f i', await client.bf.exists('f', 'i'), false);
    await other.close();
    await client.close();
  },

  async dumps(scene) {
    const client = await emptied(scene);
    // Chunks are bytes, not text.
    const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    const items = Array.from({ length: 20000 }, (_, n) => `item${n}`);
    for (const family of ['bf', 'cf']) {
      if (family === 'bf') {
        await client.bf.reserve('from', 0.001, 20000);
        await client.bf.mAdd('from', items);
      } else {
        await client.cf.reserve('from', 40000);
        await client.cf.insert('from', items);
      }
      const chunks = [];
      for (let iterator = 0; ; ) {
        const dumped = await binary[family].scanDump('from', iterator);
        iterator = dumped.iterator;
        if (iterator === 0) break;
        chunks.push(dumped);
      }
      holds('SCANDUMP, chunks', chunks.length >= 2, chunks.length);
      for (const { iterator, chunk } of chunks) {
        check('LOADCHUNK', String(await client[family].loadChunk('to', iterator, chunk)), 'OK');
      }
      const found = await client[family].mExists('to', items);
      check('MEXISTS in the copy', found.filter((one) => one).length, items.length);
      await client.flushAll();
    }
    await client.close();
  },

  async names(scene) {
    const client = await emptied(scene);
    await Promise.all(Array.from({ length: 100 }, (_, n) => client.bf.add(`user:${n}`, 'x')));
    check('DBSIZE', await client.dbSize(), 100);
    const scanned = [];
    for await (const some of client.scanIterator({ MATCH: 'user:*', COUNT: 7 })) scanned.push(...some);
    check('SCAN', new Set(scanned).size, 100);
    check('TYPE user:0', await client.type('user:0'), 'MBbloom--');
    check('RENAME user:0 moved', await client.rename('user:0', 'moved'), 'OK');
    check('EXPIRE moved 100', await client.expire('moved', 100), 1);
    holds('TTL moved', (await client.ttl('moved')) > 90, 'less');
    check('DEL moved nothing', await client.del(['moved', 'nothing']), 1);
    check('FLUSHDB', await client.flushDb(), 'OK');
    check('DBSIZE', await client.dbSize(), 0);
    await client.close();
  },

  async pools(scene) {
    const first = await emptied(scene);
    await first.bf.reserve('f', 0.0001, 20000);
    const pool = createClientPool(
      { RESP: scene.protocol, modules: bloomCommands, socket: { host: '127.0.0.1', port: scene.port } },
      { minimum: 4, maximum: 8 },
    );
    pool.on('error', () => {});
    await pool.connect();
    const items = Array.from({ length: 2000 }, (_, n) => `item${n}`);
    await Promise.all(items.map((item) => pool.bf.add('f', item)));
    const found = await Promise.all(items.map((item) => pool.bf.exists('f', item)));
    check('2000 BF.EXISTS over the pool', found.filter((one) => one).length, 2000);
    await pool.close();
    await first.close();
  },

  async server(scene) {
    const client = await emptied(scene);
    const info = await client.info();
    holds('INFO', /^redis_version:\d/m.test(info) && /^module:name=bf,ver=\d/m.test(info), info);
    const modules = await client.moduleList();
    check('MODULE LIST', modules.filter((module) => module.name === 'bf').length, 1);
    const config = await client.configGet('max*');
    holds('CONFIG GET max*', 'max-memory' in config, config);
    holds('COMMAND COUNT', (await client.commandCount()) > 90, 'fewer');
    const [add] = await client.commandInfo(['bf.add']);
    check('COMMAND INFO bf.add', [add.name, add.arity, add.firstKeyIndex], ['bf.add', 3, 1]);
    await client.close();
  },
};

run('node-redis', groups);

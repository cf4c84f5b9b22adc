// The Guava side of the proof; scripts/interop-guava runs it together with the Bloomgate side (interop/src/main.rs),
// whose comment tells the files. It lives in Guava's package because only there the older strategy can be named.
package com.google.common.hash;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Stream;

public final class GuavaInterop {
  /** A funnel, its name, and the key that a line writes. */
  private static final class Keys<T> {
    final String name;
    final Funnel<T> funnel;
    final Function<String, T> parse;

    Keys(String name, Funnel<T> funnel, Function<String, T> parse) {
      this.name = name;
      this.funnel = funnel;
      this.parse = parse;
    }

    BloomFilter<T> create(long items, double rate, int strategy) {
      return BloomFilter.create(funnel, items, rate, BloomFilterStrategies.values()[strategy]);
    }

    /** The text of the i-th of many keys; kind keeps members and probes apart. */
    String text(int kind, int i) {
      long mixed = ((((long) kind) << 40) + i) * 0xd1342543de82ef95L;
      switch (name) {
        case "long":
          return Long.toString(mixed);
        case "int":
          return Integer.toString((kind * 0x1000000 + i) * 1234567);
        case "bytes":
          StringBuilder digits = new StringBuilder(String.format(Locale.ROOT, "%02x%04x", kind, i));
          for (int more = 0; more < i % 17; more++) {
            digits.append(String.format(Locale.ROOT, "%02x", (mixed >>> (more % 8 * 8)) & 255));
          }
          return digits.toString();
        default:
          return "naïve " + kind + ":" + i + ":" + Long.toHexString(mixed);
      }
    }

    void write(Path dir, int strategy, int items, double rate) throws IOException {
      BloomFilter<T> filter = create(items, rate, strategy);
      List<String> facts = new ArrayList<>();
      facts.add("funnel " + name);
      facts.add("items " + items);
      facts.add("rate " + rate);
      facts.add("strategy " + strategy);
      for (int i = 0; i < items; i++) {
        String text = text(3, i);
        filter.put(parse.apply(text));
        facts.add("member " + text);
      }
      for (int i = 0; i < 2000; i++) {
        String text = text(4, i);
        facts.add((filter.mightContain(parse.apply(text)) ? "yes " : "no ") + text);
      }
      String file = name + "-" + strategy + "-" + items;
      Files.write(dir.resolve(file + ".bf"), bytes(filter));
      Files.write(dir.resolve(file + ".txt"), facts, StandardCharsets.UTF_8);
    }

    /** Checks one filter; how many false positives it has. */
    int check(byte[] blob, List<String> facts) throws IOException {
      BloomFilter<T> filter = BloomFilter.readFrom(new ByteArrayInputStream(blob), funnel);
      BloomFilter<T> same =
          create(
              Long.parseLong(fact(facts, "items")),
              Double.parseDouble(fact(facts, "rate")),
              Integer.parseInt(fact(facts, "strategy")));
      int maybe = 0;
      int probes = 0;
      for (String line : facts) {
        String what = line.substring(0, line.indexOf(' '));
        String text = line.substring(line.indexOf(' ') + 1);
        if (!what.equals("member") && !what.equals("yes") && !what.equals("no")) {
          continue;
        }
        T key = parse.apply(text);
        if (filter.mightContain(key) == what.equals("no")) {
          throw new IOException(line + ": Guava answers otherwise");
        }
        if (what.equals("member")) {
          same.put(key);
        } else {
          probes++;
          maybe += what.equals("yes") ? 1 : 0;
        }
      }
      if (!java.util.Arrays.equals(bytes(same), blob) || !java.util.Arrays.equals(bytes(filter), blob)) {
        throw new IOException("the same keys give other bytes");
      }
      if (probes == 0) {
        throw new IOException("it has no probes");
      }
      return maybe;
    }
  }

  private static byte[] bytes(BloomFilter<?> filter) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    filter.writeTo(out);
    return out.toByteArray();
  }

  private static byte[] unhex(String text) {
    byte[] bytes = new byte[text.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }

  private static final List<Keys<?>> ALL =
      List.of(
          new Keys<CharSequence>("utf8", Funnels.stringFunnel(StandardCharsets.UTF_8), text -> text),
          new Keys<Long>("long", Funnels.longFunnel(), Long::parseLong),
          new Keys<byte[]>("bytes", Funnels.byteArrayFunnel(), GuavaInterop::unhex),
          new Keys<Integer>("int", Funnels.integerFunnel(), Integer::parseInt),
          new Keys<CharSequence>("chars", Funnels.unencodedCharsFunnel(), text -> text));

  private static String fact(List<String> facts, String name) throws IOException {
    for (String line : facts) {
      if (line.startsWith(name + " ")) {
        return line.substring(name.length() + 1);
      }
    }
    throw new IOException("no line " + name);
  }

  public static void main(String[] arguments) throws IOException {
    Path dir = Paths.get(arguments[1]);
    if (arguments[0].equals("write")) {
      Files.createDirectories(dir);
      for (Keys<?> keys : ALL) {
        for (int strategy = 0; strategy < 2; strategy++) {
          keys.write(dir, strategy, 1, 0.03);
          keys.write(dir, strategy, 7, 0.5);
          keys.write(dir, strategy, 300, 0.02);
          keys.write(dir, strategy, 4000, 0.001);
        }
      }
      return;
    }
    int filters = 0;
    int maybe = 0;
    try (Stream<Path> files = Files.list(dir)) {
      for (Path file : (Iterable<Path>) files.filter(path -> path.toString().endsWith(".txt"))::iterator) {
        List<String> facts = Files.readAllLines(file, StandardCharsets.UTF_8);
        byte[] blob = Files.readAllBytes(Paths.get(file.toString().replaceAll("[.]txt$", ".bf")));
        String name = fact(facts, "funnel");
        Keys<?> keys = ALL.stream().filter(one -> one.name.equals(name)).findFirst().orElseThrow();
        try {
          maybe += keys.check(blob, facts);
        } catch (IOException error) {
          throw new IOException(file + ": " + error.getMessage(), error);
        }
        filters++;
      }
    }
    if (filters == 0 || maybe == 0) {
      throw new IOException(filters + " filters with " + maybe + " false positives: nothing was proven");
    }
    System.out.println("Guava agrees with " + filters + " filters of Bloomgate and their " + maybe + " false positives");
  }
}

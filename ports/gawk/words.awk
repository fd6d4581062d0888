# Word statistics whose arrays must agree with each other: count and where (an array of arrays), by_length (integer
# indices), recent (rows come and go), first (strings), and scalars.  `done` is the number of the last record whose
# changes are there; a run that begins with a heap in which some are goes on behind it.
function disagree(what, found, expected) {
  printf "%s: found %s, expected %s, after record %d\n", what, found, expected, done > "/dev/stderr"
  broken = 1
  exit 3
}

function check(    word, row, n, sum, lengths, rows, i) {
  for (word in count) {
    sum += count[word]
    n++
    rows = 0
    for (row in where[word]) rows += where[word][row]
    if (rows != count[word]) disagree("where " word, rows, count[word])
    if (! (word in first)) disagree("first " word, "nothing", "a record")
  }
  if (sum != total + 0) disagree("words", sum, total)
  if (n != different + 0) disagree("different words", n, different)
  for (i in by_length) lengths += by_length[i]
  if (lengths != total + 0) disagree("lengths", lengths, total)
  if (length(recent) != (done < 50 ? done + 0 : 50)) disagree("recent rows", length(recent), done)
  for (i in recent) {
    if (i + 0 <= done - 50 || i + 0 > done || recent[i] !~ "^" i ":") disagree("row", i ":" recent[i], done)
  }
}

BEGIN {
  if (done > 0) check()
  started++
}

NR <= done { next }

{
  for (i = 1; i <= NF; i++) {
    if (! ($i in count)) {
      first[$i] = FNR ":" substr($0, 1, 20)
      different++
    }
    count[$i]++
    where[$i][NR % 8]++
    by_length[length($i)]++
    total++
  }
  recent[NR] = NR ":" toupper($0)
  delete recent[NR - 50]
  if (NR % 97 == 0) {
    rare = $1
    total -= count[rare]
    by_length[length(rare)] -= count[rare]
    different -= rare in count
    delete count[rare]
    delete where[rare]
    delete first[rare]
  }
  longest = length($0) > length(longest) ? $0 : longest
  done = NR
}

END {
  if (broken) exit 3
  check()
  n = asorti(count, names)
  for (i = 1; i <= n; i++) {
    w = names[i]
    line = w " " count[w] " " first[w]
    for (j = 0; j < 8; j++) line = line " " where[w][j] + 0
    print line
  }
  n = asorti(by_length, lengths, "@ind_num_asc")
  for (i = 1; i <= n; i++) print lengths[i], by_length[lengths[i]]
  for (i = done - 49; i <= done; i++) print recent[i]
  print total, different, done, longest
  if (REPORT_STARTS) print started > "/dev/stderr"
}

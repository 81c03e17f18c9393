if [ $1 = a ]; then
  A=$((2 * N)) python t.py --a "${B[@]}" <<E
x
E
else
  B=(1 "2" # c
 3)
fi
